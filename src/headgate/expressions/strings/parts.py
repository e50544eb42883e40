"""Parts of strings, and searching in them: positions count Unicode code points, from 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import nulls, numbers, rebuilt
from headgate.expressions.coercion import implicit
from headgate.expressions.kernels import Kernel, Value, all_null, arrays, arrow, constant, null_literal
from headgate.expressions.registry import function, typed
from headgate.expressions.rules import is_literal, takes
from headgate.expressions.signature import Literals, Signature, Types, count_arguments
from headgate.expressions.strings.regex import java_regex
from headgate.graph.expressions import Call, Literal
from headgate.graph.types import BINARY, BOOLEAN, INT, STRING


def slice_from(text: Value, position: int, length: int | None) -> Value:
    """substring(text, position, length): from 1, or from the end if negative; 0 is 1."""
    if length is not None and length <= 0:
        return pc.utf8_slice_codeunits(text, 0, 0)
    start = position - 1 if position > 0 else position
    stop: int | None = None
    if length is not None:
        stop = start + length
        if start < 0 and stop >= 0:
            stop = None
    # No string is longer than 2^31, and Arrow counts in 64 bits: start + length cannot overflow.
    return pc.utf8_slice_codeunits(text, start, stop)


def _substring_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2, 3)
    if types[0] == BINARY:
        return Signature(name, (BINARY, *(INT,) * (len(types) - 1)), BINARY, native=False)
    rest = tuple(implicit(name, i + 1, t, INT) for i, t in enumerate(types[1:]))
    return Signature(name, (implicit(name, 0, types[0], STRING), *rest), STRING)


@function("substring", types=_substring_types, aliases={"substr": "substring", "mid": "substring"})
def _substring(call: Call) -> Kernel:
    """Constant positions are one slice; otherwise there is one slice for each distinct pair of position and length."""
    if null_literal(call):
        return all_null(call)
    rest = call.args[1:]
    if all(isinstance(a, Literal) for a in rest):
        position = int(str(constant(call, 1)))
        length = int(str(constant(call, 2))) if len(rest) == 2 else None
        return lambda value, *_: slice_from(arrays(value)[0], position, length)

    def run(value: Value, position: Value, length: Value | None = None) -> Value:
        text, at = arrays(value, position)
        if length is None:
            return _by_groups(text, [at], lambda part, key: slice_from(part, key[0], None))
        text, at, size = arrays(value, position, length)
        return _by_groups(text, [at, size], lambda part, key: slice_from(part, key[0], key[1]))

    return run


def _by_groups(
    text: pa.Array, keys: list[pa.Array], function: Callable[[pa.Array, tuple[int, ...]], pa.Array]
) -> pa.Array:
    """Applies a function of constants to the rows of each distinct combination of them."""
    stacked = np.stack([numbers(k).astype(np.int64) for k in keys])
    distinct, group = np.unique(stacked, axis=1, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group, minlength=distinct.shape[1]))
    pieces, start = [], 0
    for column, end in zip(distinct.T, ends, strict=True):
        part = text.take(pa.array(order[start:end]))
        pieces.append(function(part, tuple(int(v) for v in column)))
        start = int(end)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    joined = pa.concat_arrays(pieces).take(pa.array(back)) if pieces else text
    missing = nulls(text, *keys)
    return joined if missing is None else pc.if_else(pa.array(missing), pa.scalar(None, joined.type), joined)


def _end_types(name: str, types: Types, literals: Literals) -> Signature:
    if name == "left" and types[:1] == (BINARY,):
        count_arguments(name, types, 2)
        return Signature(name, (BINARY, implicit(name, 1, types[1], INT)), BINARY, native=False)
    return takes((STRING, INT), STRING)(name, types, literals)


@function("left", "right", types=_end_types)
def _end(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)

    def cut(text: pa.Array, key: tuple[int, ...]) -> pa.Array:
        (size,) = key
        return slice_from(text, 1 if call.name == "left" else -size, max(size, 0))

    if isinstance(call.args[1], Literal):
        size = int(call.args[1].value)
        return lambda value, _: cut(arrays(value)[0], (size,))
    return lambda value, count: _by_groups(arrays(value, count)[0], arrays(value, count)[1:], cut)


typed("substring_index", types=takes((STRING, STRING, INT), STRING))


def first_place(text: pa.Array, search: str) -> pa.Array:
    """The position of the first occurrence, from 1; 0 if there is none."""
    found = pc.find_substring(text, search)
    if pc.all(pc.string_is_ascii(text), skip_nulls=True).as_py() is not False:
        return pc.add(found, pa.scalar(1, INT))
    before = (
        pc.list_element(pc.split_pattern(text, search, max_splits=1), 0)
        if search
        else pc.utf8_slice_codeunits(text, 0, 0)
    )
    return pc.if_else(pc.less(found, 0), pa.scalar(0, INT), pc.add(pc.utf8_length(before), pa.scalar(1, INT)))


def _instr_types(name: str, types: Types, literals: Literals) -> Signature:
    """instr(text, search[, from[, occurrence]]): from a position, or from the end if it is negative."""
    found = takes((STRING, STRING, INT, INT), INT, 2, constant=(1,))(name, types, literals)
    return found if len(types) == 2 else replace(found, native=False)


@function("instr", types=_instr_types)
def _instr(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)
    search = str(constant(call, 1))
    return lambda value, _: first_place(arrays(value)[0], search)


@function(
    "locate",
    types=takes((STRING, STRING, INT), INT, 2, (0, 2)),
    aliases={"position": "locate", "charindex": "locate"},
)
def _locate(call: Call) -> Kernel:
    """locate(search, text[, from])."""
    if isinstance(call.args[0], Literal) and call.args[0].value is None:
        return all_null(call)
    search = str(constant(call, 0))
    start = constant(call, 2) if len(call.args) == 3 else 1
    if start is None:
        return lambda _, value, *__: pc.if_else(pc.is_valid(arrays(value)[0]), pa.scalar(0, INT), pa.scalar(0, INT))
    begin = int(str(start))

    def run(_: Value, value: Value, *__: Value) -> Value:
        text = arrays(value)[0]
        if begin < 1 or not search:
            # An empty search string is found at the start of the text, whatever the start position.
            place = 0 if begin < 1 else 1
            return pc.if_else(pc.is_valid(text), pa.scalar(place, INT), pa.scalar(None, INT))
        found = first_place(pc.utf8_slice_codeunits(text, begin - 1), search)
        return pc.if_else(pc.equal(found, 0), pa.scalar(0, INT), pc.add(found, pa.scalar(begin - 1, INT)))

    return run


@function("contains", "startswith", "endswith", types=takes((STRING, STRING), BOOLEAN, constant=(1,)))
def _contains(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)
    names = {"contains": "match_substring", "startswith": "starts_with", "endswith": "ends_with"}
    run = arrow(names[call.name], pc.MatchSubstringOptions(str(constant(call, 1))))
    return lambda value, _: run(value)


def _split_part_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return literals[2] is None or literals[2] == 0


def _split_part_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 3)
    args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, (STRING, STRING, INT), strict=True)))
    native = is_literal(types[1], literals[1]) and is_literal(types[2], literals[2]) and literals[2] != 0
    return Signature(name, args, STRING, native)


@function("split_part", types=_split_part_types, fails=_split_part_fails)
def _split_part(call: Call) -> Kernel:
    """The empty string beyond the last part; an empty delimiter does not split."""
    if null_literal(call):
        return all_null(call)
    delimiter, part = str(constant(call, 1)), int(str(constant(call, 2)))

    def run(value: Value, *_: Value) -> Value:
        text = arrays(value)[0]
        pieces = pc.split_pattern(text, delimiter) if delimiter else pa.array([[t] for t in text.to_pylist()])
        found = picked(pieces, part - 1 if part > 0 else part)
        return pc.if_else(pc.is_valid(text), pc.fill_null(found, ""), pa.scalar(None, STRING))

    if not delimiter:
        return lambda value, *_: (
            arrays(value)[0] if part in (1, -1) else pc.utf8_slice_codeunits(arrays(value)[0], 0, 0)
        )
    return run


def picked(lists: pa.Array, index: int) -> pa.Array:
    """The element at an index of each list (negative: from the end); null where there is none."""
    sizes = numbers(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if len(sizes) else sizes
    place = index if index >= 0 else sizes + index
    inside = (place >= 0) & (place < sizes)
    return lists.flatten().take(rebuilt(np.where(inside, starts + place, 0), pa.int64(), ~inside))


def _split_types(name: str, types: Types, literals: Literals) -> Signature:
    """Native only for plain text: Java treats empty matches of a pattern differently from RE2."""
    count_arguments(name, types, 2, 3)
    wanted = (STRING, STRING, INT)[: len(types)]
    args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, wanted, strict=True)))
    found = java_regex(literals[1]) if isinstance(literals[1], str) else None
    native = len(types) == 2 and found is not None and found.plain is not None and found.plain != ""
    return Signature(name, args, pa.list_(STRING), native)


@function("split", types=_split_types)
def _split(call: Call) -> Kernel:
    pattern = java_regex(str(constant(call, 1)))
    if pattern is None or not pattern.plain:
        raise ValueError("split has a kernel only for plain text")
    run = arrow("split_pattern", pc.SplitPatternOptions(pattern.plain))
    return lambda value, _: run(value)

"""String functions: positions count Unicode code points, from 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import nulls, numbers, rebuilt
from headgate.expressions.registry import Kernel, Value, arrays, arrow, kernel
from headgate.expressions.typing_rules.patterns import java_regex
from headgate.graph.expressions import Call, Literal
from headgate.graph.types import BINARY, INT, STRING


def constant(call: Call, position: int) -> object | None:
    """The literal at a position; None also if it is not there."""
    arg = call.args[position] if position < len(call.args) else None
    return arg.value if isinstance(arg, Literal) else None


def null_literal(call: Call) -> bool:
    """Whether any argument is a NULL literal."""
    return any(isinstance(a, Literal) and a.value is None for a in call.args)


def all_null(call: Call) -> Kernel:
    return lambda *args: pa.nulls(len(arrays(*args)[0]), call.type)


def by_distinct(array: pa.Array, function: Callable[[str], object], type_: pa.DataType = STRING) -> pa.Array:
    """Applies a Python function once to each distinct value."""
    encoded = array.dictionary_encode()
    mapped = pa.array([function(v) for v in encoded.dictionary.to_pylist()], type_)
    return mapped.take(encoded.indices)


@kernel("upper", "lower")
def _case(call: Call) -> Kernel:
    """Full Unicode mappings ('ß' becomes 'SS'), which Arrow's kernels lack; ASCII, the usual case, is Arrow's."""
    ascii_only = arrow(f"ascii_{call.name}")
    full = str.upper if call.name == "upper" else str.lower

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        if pc.all(pc.string_is_ascii(array), skip_nulls=True).as_py() is not False:
            return ascii_only(array)
        return by_distinct(array, full)

    return run


def _titled(text: str) -> str:
    return " ".join(word[:1].title() + word[1:] for word in text.lower().split(" "))


@kernel("initcap")
def _initcap(call: Call) -> Kernel:
    return lambda value: by_distinct(arrays(value)[0], _titled)


@kernel("trim", "ltrim", "rtrim")
def _trim(call: Call) -> Kernel:
    """Without characters to trim, blanks only."""
    if null_literal(call):
        return all_null(call)
    characters = constant(call, 1) if len(call.args) == 2 else " "
    if characters == "":
        return lambda value, *_: arrays(value)[0]
    run = arrow(f"utf8_{call.name}", pc.TrimOptions(str(characters)))
    return lambda value, *_: run(value)


@kernel("length")
def _length(call: Call) -> Kernel:
    return arrow("binary_length" if call.args[0].type == BINARY else "utf8_length")


@kernel("octet_length")
def _octet_length(call: Call) -> Kernel:
    return arrow("binary_length")


@kernel("bit_length")
def _bit_length(call: Call) -> Kernel:
    eight = pa.scalar(8, INT)
    return lambda value: pc.multiply(pc.binary_length(value), eight)


@kernel("ascii")
def _ascii(call: Call) -> Kernel:
    return lambda value: by_distinct(pc.utf8_slice_codeunits(arrays(value)[0], 0, 1), lambda c: ord(c) if c else 0, INT)


@kernel("reverse")
def _reverse(call: Call) -> Kernel:
    return arrow("utf8_reverse")


@kernel("repeat")
def _repeat(call: Call) -> Kernel:
    zero = pa.scalar(0, INT)

    def run(value: Value, times: Value) -> Value:
        text, count = arrays(value, times)
        return pc.binary_repeat(text, pc.max_element_wise(count, zero, skip_nulls=False))

    return run


@kernel("space")
def _space(call: Call) -> Kernel:
    blank, zero = pa.scalar(" "), pa.scalar(0, INT)
    return lambda count: pc.binary_repeat(blank, pc.max_element_wise(arrays(count)[0], zero, skip_nulls=False))


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
    # Beyond 2^31 there is no text, and Arrow counts in 64 bits.
    return pc.utf8_slice_codeunits(text, start, stop)


@kernel("substring")
def _substring(call: Call) -> Kernel:
    """Constant positions are sliced at once, others once for each distinct pair."""
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


@kernel("left", "right")
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


@kernel("concat")
def _concat(call: Call) -> Kernel:
    join = arrow("binary_join_element_wise", pc.JoinOptions("emit_null"))
    end = pa.scalar("" if call.type == STRING else b"", call.type)
    return lambda *args: join(*arrays(*args), end)


@kernel("concat_ws")
def _concat_ws(call: Call) -> Kernel:
    """Nulls are left out; a null separator gives null."""
    join = arrow("binary_join_element_wise", pc.JoinOptions("skip"))

    def run(separator: Value, *parts: Value) -> Value:
        first, *rest = arrays(*parts, separator)[:-1]
        # Arrow leaves out a row whose parts are all null, so such a row gets an empty one.
        return join(pc.if_else(pc.is_null(pc.coalesce(first, *rest)), "", first), *rest, separator)

    return run


@kernel("lpad", "rpad")
def _pad(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)
    size = max(int(str(constant(call, 1))), 0)
    fill = str(constant(call, 2)) if len(call.args) == 3 else " "
    filling = (fill * (size // len(fill) + 1))[:size] if fill else ""

    def run(value: Value, *_: Value) -> Value:
        text = pc.utf8_slice_codeunits(arrays(value)[0], 0, size)
        if not filling:
            return text
        lengths = rebuilt(np.clip(size - numbers(pc.utf8_length(text)), 0, None), INT)
        pads = pa.array([filling[:n] for n in range(size + 1)]).take(lengths)
        parts = (pads, text) if call.name == "lpad" else (text, pads)
        return pc.binary_join_element_wise(*parts, "")

    return run


@kernel("replace")
def _replace(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)
    search = str(constant(call, 1))
    new = str(constant(call, 2)) if len(call.args) == 3 else ""
    if not search:
        return lambda value, *_: arrays(value)[0]
    run = arrow("replace_substring", pc.ReplaceSubstringOptions(search, new))
    return lambda value, *_: run(value)


@kernel("translate")
def _translate(call: Call) -> Kernel:
    """Each character becomes the one at its place, or goes; the first of repeated characters counts."""
    if null_literal(call):
        return all_null(call)
    old, new = str(constant(call, 1)), str(constant(call, 2))
    table: dict[int, str | None] = {}
    for place, char in enumerate(old):
        table.setdefault(ord(char), new[place] if place < len(new) else None)
    return lambda value, *_: by_distinct(arrays(value)[0], lambda text: text.translate(table))


@kernel("substring_index")
def _substring_index(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)
    delimiter, count = str(constant(call, 1)), int(str(constant(call, 2)))

    def cut(text: str) -> str:
        if not delimiter or count == 0:
            return ""
        if count > 0:
            return delimiter.join(text.split(delimiter)[:count])
        return _last_pieces(text, delimiter, -count)

    return lambda value, *_: by_distinct(arrays(value)[0], cut)


def _last_pieces(text: str, delimiter: str, count: int) -> str:
    """What follows the delimiter that is the `count`th from the end."""
    end = len(text)
    for _ in range(count):
        end = text.rfind(delimiter, 0, end + len(delimiter) - 1 if end < len(text) else end)
        if end < 0:
            return text
    return text[end + len(delimiter) :]


def first_place(text: pa.Array, search: str) -> pa.Array:
    """Where the text first has it, from 1; 0 if nowhere."""
    found = pc.find_substring(text, search)
    if pc.all(pc.string_is_ascii(text), skip_nulls=True).as_py() is not False:
        return pc.add(found, pa.scalar(1, INT))
    before = (
        pc.list_element(pc.split_pattern(text, search, max_splits=1), 0)
        if search
        else pc.utf8_slice_codeunits(text, 0, 0)
    )
    return pc.if_else(pc.less(found, 0), pa.scalar(0, INT), pc.add(pc.utf8_length(before), pa.scalar(1, INT)))


@kernel("instr")
def _instr(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)
    search = str(constant(call, 1))
    return lambda value, _: first_place(arrays(value)[0], search)


@kernel("locate")
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
            # The empty text is found at the start, wherever one begins.
            place = 0 if begin < 1 else 1
            return pc.if_else(pc.is_valid(text), pa.scalar(place, INT), pa.scalar(None, INT))
        found = first_place(pc.utf8_slice_codeunits(text, begin - 1), search)
        return pc.if_else(pc.equal(found, 0), pa.scalar(0, INT), pc.add(found, pa.scalar(begin - 1, INT)))

    return run


@kernel("contains", "startswith", "endswith")
def _contains(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)
    names = {"contains": "match_substring", "startswith": "starts_with", "endswith": "ends_with"}
    run = arrow(names[call.name], pc.MatchSubstringOptions(str(constant(call, 1))))
    return lambda value, _: run(value)


@kernel("split_part")
def _split_part(call: Call) -> Kernel:
    """Beyond the last part there is the empty text; an empty delimiter does not split."""
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


@kernel("split")
def _split(call: Call) -> Kernel:
    pattern = java_regex(str(constant(call, 1)))
    if pattern is None or not pattern.plain:
        raise ValueError("split has a kernel only for plain text")
    run = arrow("split_pattern", pc.SplitPatternOptions(pattern.plain))
    return lambda value, _: run(value)

"""Functions that build, measure and change strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import numbers
from headgate.expressions.coercion import common_type, implicit
from headgate.expressions.kernels import Kernel, Value, all_null, arrays, arrow, by_distinct, constant, null_literal
from headgate.expressions.registry import function
from headgate.expressions.rules import is_literal, takes
from headgate.expressions.signature import Literals, Signature, Types, count_arguments
from headgate.graph.expressions import Call
from headgate.graph.types import BINARY, INT, STRING


@function("upper", "lower", types=takes((STRING,), STRING), aliases={"ucase": "upper", "lcase": "lower"})
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


@function("initcap", types=takes((STRING,), STRING))
def _initcap(call: Call) -> Kernel:
    return lambda value: by_distinct(arrays(value)[0], _titled)


@function("trim", "ltrim", "rtrim", types=takes((STRING, STRING), STRING, 1, (1,)), aliases={"btrim": "trim"})
def _trim(call: Call) -> Kernel:
    """Trims the given characters; blanks if there is no second argument."""
    if null_literal(call):
        return all_null(call)
    characters = constant(call, 1) if len(call.args) == 2 else " "
    if characters == "":
        return lambda value, *_: arrays(value)[0]
    run = arrow(f"utf8_{call.name}", pc.TrimOptions(str(characters)))
    return lambda value, *_: run(value)


def _size_types(name: str, types: Types, literals: Literals) -> Signature:
    """BINARY is measured in bytes; every other type is cast to STRING."""
    count_arguments(name, types, 1)
    return Signature(name, (BINARY if types[0] == BINARY else implicit(name, 0, types[0], STRING),), INT)


@function(
    "length",
    types=_size_types,
    aliases={"char_length": "length", "character_length": "length", "len": "length"},
)
def _length(call: Call) -> Kernel:
    return arrow("binary_length" if call.args[0].type == BINARY else "utf8_length")


@function("octet_length", types=_size_types)
def _octet_length(call: Call) -> Kernel:
    return arrow("binary_length")


@function("bit_length", types=_size_types)
def _bit_length(call: Call) -> Kernel:
    eight = pa.scalar(8, INT)
    return lambda value: pc.multiply(pc.binary_length(value), eight)


@function("ascii", types=takes((STRING,), INT))
def _ascii(call: Call) -> Kernel:
    return lambda value: by_distinct(pc.utf8_slice_codeunits(arrays(value)[0], 0, 1), lambda c: ord(c) if c else 0, INT)


def _reverse_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if pa.types.is_list(types[0]) or types[0] == BINARY:
        return Signature(name, types, types[0], native=False)
    return Signature(name, (implicit(name, 0, types[0], STRING),), STRING)


@function("reverse", types=_reverse_types)
def _reverse(call: Call) -> Kernel:
    return arrow("utf8_reverse")


@function("repeat", types=takes((STRING, INT), STRING))
def _repeat(call: Call) -> Kernel:
    zero = pa.scalar(0, INT)

    def run(value: Value, times: Value) -> Value:
        text, count = arrays(value, times)
        return pc.binary_repeat(text, pc.max_element_wise(count, zero, skip_nulls=False))

    return run


@function("space", types=takes((INT,), STRING))
def _space(call: Call) -> Kernel:
    blank, zero = pa.scalar(" "), pa.scalar(0, INT)
    return lambda count: pc.binary_repeat(blank, pc.max_element_wise(arrays(count)[0], zero, skip_nulls=False))


def _concat_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 1_000_000)
    if any(pa.types.is_list(t) for t in types):
        common = common_type(types, "the arguments of concat")
        return Signature(name, (common,) * len(types), common, native=False)
    if all(t == BINARY for t in types):
        return Signature(name, types, BINARY)
    return Signature(name, tuple(implicit(name, i, t, STRING) for i, t in enumerate(types)), STRING)


@function("concat", types=_concat_types)
def _concat(call: Call) -> Kernel:
    join = arrow("binary_join_element_wise", pc.JoinOptions("emit_null"))
    end = pa.scalar("" if call.type == STRING else b"", call.type)
    return lambda *args: join(*arrays(*args), end)


def _concat_ws_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 1_000_000)
    nested = any(pa.types.is_list(t) for t in types)
    args = tuple(t if t == pa.list_(STRING) else implicit(name, i, t, STRING) for i, t in enumerate(types))
    return Signature(name, args, STRING, native=not nested and len(types) > 1)


@function("concat_ws", types=_concat_ws_types)
def _concat_ws(call: Call) -> Kernel:
    """Nulls are left out; a null separator gives null."""
    join = arrow("binary_join_element_wise", pc.JoinOptions("skip"))

    def run(separator: Value, *parts: Value) -> Value:
        first, *rest = arrays(*parts, separator)[:-1]
        # Arrow drops rows whose parts are all null from the result, so such a row gets an empty part.
        return join(pc.if_else(pc.is_null(pc.coalesce(first, *rest)), "", first), *rest, separator)

    return run


def _pad_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2, 3)
    if types[0] == BINARY and types[2:] in ((), (BINARY,)):
        return Signature(name, (BINARY, implicit(name, 1, types[1], INT), *types[2:]), BINARY, native=False)
    wanted = (STRING, INT, STRING)[: len(types)]
    args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, wanted, strict=True)))
    return Signature(name, args, STRING, native=all(map(is_literal, types[1:], literals[1:])))


@function("lpad", "rpad", types=_pad_types)
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
        missing = np.clip(size - numbers(pc.utf8_length(text)), 0, None)
        widths, places = np.unique(missing, return_inverse=True)
        pads = pa.array([filling[:n] for n in widths], STRING).take(pa.array(places))
        parts = (pads, text) if call.name == "lpad" else (text, pads)
        return pc.binary_join_element_wise(*parts, "")

    return run


@function("replace", types=takes((STRING, STRING, STRING), STRING, 2, (1, 2)))
def _replace(call: Call) -> Kernel:
    if null_literal(call):
        return all_null(call)
    search = str(constant(call, 1))
    new = str(constant(call, 2)) if len(call.args) == 3 else ""
    if not search:
        return lambda value, *_: arrays(value)[0]
    run = arrow("replace_substring", pc.ReplaceSubstringOptions(search, new))
    return lambda value, *_: run(value)


@function("translate", types=takes((STRING, STRING, STRING), STRING, constant=(1, 2)))
def _translate(call: Call) -> Kernel:
    """Replaces each character by the one at the same position, or drops it; of repeated characters the first counts."""
    if null_literal(call):
        return all_null(call)
    old, new = str(constant(call, 1)), str(constant(call, 2))
    table: dict[int, str | None] = {}
    for place, char in enumerate(old):
        table.setdefault(ord(char), new[place] if place < len(new) else None)
    return lambda value, *_: by_distinct(arrays(value)[0], lambda text: text.translate(table))

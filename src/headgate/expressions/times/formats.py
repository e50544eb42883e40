"""Times as text by a pattern (`yyyy-MM-dd`), and text read by one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import Numbers, nulls, numbers, numpy_true, rebuilt
from headgate.expressions.casts.cast import cast_signature
from headgate.expressions.coercion import implicit
from headgate.expressions.errors import EvaluationError, first_true
from headgate.expressions.kernels import Kernel, Value, arrays, constant
from headgate.expressions.registry import function
from headgate.expressions.signature import Literals, Signature, Types, count_arguments
from headgate.expressions.times.calendar import civil, days_from, valid_date
from headgate.expressions.times.dates import day_of_year, weekday
from headgate.expressions.times.zones import DAY, SECOND, instant, wall_clock
from headgate.graph.expressions import Call
from headgate.graph.types import BIGINT, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ

_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])", re.DOTALL)


_FRACTIONS = frozenset("S" * size for size in range(1, 7))


_READABLE = frozenset(("yyyy", "MM", "dd", "HH", "mm", "ss")) | _FRACTIONS


_WRITABLE = _READABLE | frozenset(("yy", "y", "M", "MMM", "MMMM", "d", "H", "m", "s", "E", "EE", "EEE", "EEEE", "a"))


_WRITABLE |= frozenset(("hh", "h", "D", "DDD", "Q"))


# What Java reserves in patterns.
_RESERVED = frozenset("{}#[]")


Token = tuple[str, str]
"""("field", letters) or ("text", what stands there)."""


@lru_cache(maxsize=1024)
def tokens(pattern: str) -> tuple[Token, ...] | None:
    """The parts of a pattern, or None if it is not well formed or uses what Java reserves.

    >>> tokens("yyyy'T'HH")
    (('field', 'yyyy'), ('text', 'T'), ('field', 'HH'))
    """
    out: list[Token] = []
    at = 0
    while at < len(pattern):
        match = _TOKEN.match(pattern, at)
        if match is None:
            return None
        at = match.end()
        if match.group(1) is not None:
            out.append(("text", match.group(1).replace("''", "'") or "'"))
        elif match.group(2) is not None:
            out.append(("field", match.group(0)))
        elif match.group(3) in _RESERVED:
            return None
        else:
            out.append(("text", match.group(3)))
    return tuple(out)


def writable(pattern: object) -> bool:
    """Whether a kernel can write times with it."""
    found = tokens(pattern) if isinstance(pattern, str) else None
    return bool(found) and all(kind == "text" or text in _WRITABLE for kind, text in found or ())


def readable(pattern: object) -> bool:
    """Whether a kernel can read times with it: full-width fields, each once, a date whole or not at all."""
    found = tokens(pattern) if isinstance(pattern, str) else None
    fields = [text for kind, text in found or () if kind == "field"]
    if not fields or not all(f in _READABLE for f in fields):
        return False
    kinds = [f[0] for f in fields]
    if len(set(kinds)) != len(kinds) or not {"y", "M", "d"} <= set(kinds):
        return False
    # Minutes without hours and the like have rules of their own.
    order = [k for k in "HmsS" if k in kinds]
    return order == list("HmsS"[: len(order)])


_MONTHS = ["January", "February", "March", "April", "May", "June"]


_MONTHS += ["July", "August", "September", "October", "November", "December"]


_DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]


_DEFAULT = "yyyy-MM-dd HH:mm:ss"


class _Clock:
    """The parts of wall-clock times, computed when asked for."""

    def __init__(self, clock: Numbers) -> None:
        self.days = clock // DAY
        self.of_day = clock % DAY
        self.year, self.month, self.day = civil(self.days)

    def part(self, letters: str) -> pa.Array:
        """One field of a pattern as text."""
        letter, width = letters[0], len(letters)
        if letter == "M" and width > 2:
            return _names(_MONTHS, self.month - 1, width)
        if letter == "E":
            return _names(_DAYS, weekday(self.days), width)
        if letter == "a":
            return pa.array(["AM", "PM"]).take(pa.array(self.of_day // (12 * 3_600 * SECOND)))
        if letter == "S":
            return _padded(self.of_day % SECOND // 10 ** (6 - width), width)
        if letters == "yy":
            return _padded(self.year % 100, 2)
        return _padded(_NUMBERS[letter](self), width)


_NUMBERS: dict[str, Callable[[_Clock], Numbers]] = {
    "y": lambda c: c.year,
    "M": lambda c: c.month,
    "d": lambda c: c.day,
    "D": lambda c: day_of_year(c.days),
    "Q": lambda c: (c.month - 1) // 3 + 1,
    "H": lambda c: c.of_day // (3_600 * SECOND),
    "h": lambda c: (c.of_day // (3_600 * SECOND) + 11) % 12 + 1,
    "m": lambda c: c.of_day // (60 * SECOND) % 60,
    "s": lambda c: c.of_day // SECOND % 60,
}


def _names(names: list[str], index: Numbers, width: int) -> pa.Array:
    shown = pa.array([n if width == 4 else n[:3] for n in names])
    return shown.take(pa.array(index))


def _padded(values: Numbers, width: int) -> pa.Array:
    text = pc.cast(pa.array(values.astype(np.int64)), STRING)
    return pc.utf8_lpad(text, width, "0") if width > 1 else text


def formatted(array: pa.Array, pattern: str, zone: str) -> pa.Array:
    """Each time by the pattern, on the wall clock of the zone."""
    clock = _Clock(numbers(wall_clock(array, zone)))
    parts: list[Value] = [
        pa.scalar(text) if kind == "text" else clock.part(text) for kind, text in tokens(pattern) or ()
    ]
    if not any(isinstance(p, pa.Array) for p in parts):
        parts.append(pa.repeat("", len(array)))
    joined = pc.binary_join_element_wise(*parts, "")
    missing = nulls(array)
    return joined if missing is None else pc.if_else(pa.array(missing), pa.scalar(None, STRING), joined)


def _date_format_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    args = (implicit(name, 0, types[0], TIMESTAMP), implicit(name, 1, types[1], STRING))
    return Signature(name, args, STRING, native=writable(literals[1]), zoned=True)


@function("date_format", types=_date_format_types)
def _date_format(call: Call) -> Kernel:
    pattern = str(constant(call, 1))
    return lambda value, _: formatted(arrays(value)[0], pattern, call.option)


def _from_unixtime_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 2)
    args = (implicit(name, 0, types[0], BIGINT), *(implicit(name, 1, t, STRING) for t in types[1:]))
    return Signature(name, args, STRING, native=len(types) == 1 or writable(literals[1]), zoned=True)


@function("from_unixtime", types=_from_unixtime_types)
def _from_unixtime(call: Call) -> Kernel:
    pattern = str(constant(call, 1)) if len(call.args) == 2 else _DEFAULT

    def run(value: Value, *_: Value) -> Value:
        (array,) = arrays(value)
        return formatted(rebuilt(numbers(array) * SECOND, TIMESTAMP, nulls(array)), pattern, call.option)

    return run


def _parse_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return bool(args[0] == STRING)


def _parsed_types(name: str, types: Types, literals: Literals) -> Signature:
    """to_date and to_timestamp: casts without a pattern, and readings of text with one."""
    count_arguments(name, types, 1, 2)
    result = DATE if name == "to_date" else TIMESTAMP
    if len(types) == 1:
        return cast_signature(types[0], result)
    if types[0] in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return Signature(name, (result, STRING), result)
    args = tuple(implicit(name, i, t, STRING) for i, t in enumerate(types))
    return Signature(name, args, result, readable(literals[1]), zoned=result == TIMESTAMP)


@function("to_date", "to_timestamp", types=_parsed_types, fails=_parse_fails)
def _parse(call: Call) -> Kernel:
    if call.args[0].type != STRING:
        return lambda value, *_: value
    pattern = str(constant(call, 1))
    fields = [text for kind, text in tokens(pattern) or () if kind == "field"]
    regex = "".join(
        re.escape(text) if kind == "text" else f"(?P<{text[0]}_>[0-9]{{{len(text)}}})"
        for kind, text in tokens(pattern) or ()
    )
    names = [f"{text[0]}_" for text in fields]

    def run(value: Value, _: Value) -> Value:
        (array,) = arrays(value)
        parts = pc.extract_regex(array, rf"\A{regex}\z")
        read = {name[0]: _number(pc.struct_field(parts, name), name, fields) for name in names}
        zero = np.zeros(len(array), np.int64)
        year, month, day = read["y"], read["M"], read["d"]
        hour, minute, second, micros = (read.get(k, zero) for k in "HmsS")
        good = numpy_true(pc.is_valid(parts)) & valid_date(year, month, day)
        good &= (hour < 24) & (minute < 60) & (second < 60)
        bad = pa.array(~good & numpy_true(pc.is_valid(array)))
        place = first_true(bad)
        if place is not None:
            raise _malformed(array[place].as_py(), call.type)
        days = np.where(good, days_from(year, np.clip(month, 1, 12), day), 0)
        if call.type == DATE:
            return rebuilt(days, DATE, ~good)
        clock = days * DAY + ((hour * 60 + minute) * 60 + second) * SECOND + micros
        return instant(rebuilt(np.where(good, clock, 0), TIMESTAMP_NTZ, ~good), call.option)

    return run


def _number(text: pa.Array, name: str, fields: list[str]) -> Numbers:
    values = numbers(pc.cast(pc.fill_null(text, "0"), BIGINT))
    if name[0] == "S":
        width = len(next(f for f in fields if f[0] == "S"))
        return values * 10 ** (6 - width)
    return values


def _malformed(text: str, type_: pa.DataType) -> EvaluationError:
    hint = "try_to_date" if type_ == DATE else "try_to_timestamp"
    return EvaluationError(
        "CANNOT_PARSE_TIMESTAMP",
        f"Text '{text}' could not be parsed. Use `{hint}` to tolerate invalid input string and return NULL instead.",
    )

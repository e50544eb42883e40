"""Times written as text by a pattern (`yyyy-MM-dd`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.casts.cast import cast_signature
from headgate.expressions.coercion import implicit
from headgate.expressions.kernels import Kernel, Value, arrays, constant
from headgate.expressions.registry import function
from headgate.expressions.signature import Literals, Signature, Types, count_arguments
from headgate.expressions.times.calendar import civil
from headgate.expressions.times.dates import day_of_year, weekday
from headgate.expressions.times.zones import DAY, SECOND, wall_clock
from headgate.graph.expressions import Call
from headgate.graph.types import BIGINT, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ

_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])", re.DOTALL)
_WRITABLE = frozenset(
    (
        *("yyyy", "yy", "y", "MMMM", "MMM", "MM", "M", "dd", "d", "DDD", "D", "Q", "EEEE", "EEE", "EE", "E"),
        *("HH", "H", "hh", "h", "a", "mm", "m", "ss", "s"),
        *("S" * size for size in range(1, 7)),
    )
)
# Reserved by Java.
_RESERVED = frozenset("{}#[]")
Token = tuple[str, str]
"""("field", letters) or ("text", literal text)."""


@lru_cache(maxsize=1024)
def tokens(pattern: str) -> tuple[Token, ...] | None:
    """The parts of a pattern, or None if it is malformed or uses reserved characters.

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


_MONTHS = ["January", "February", "March", "April", "May", "June"]
_MONTHS += ["July", "August", "September", "October", "November", "December"]
_DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
_DEFAULT = "yyyy-MM-dd HH:mm:ss"


class _Clock:
    """The parts of wall-clock times, computed on demand."""

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


def _parsed_types(name: str, types: Types, literals: Literals) -> Signature:
    """Without a pattern, a cast. With one, Catalyst parses text; dates and times are cast, whatever the pattern."""
    count_arguments(name, types, 1, 2)
    result = DATE if name == "to_date" else TIMESTAMP
    if len(types) == 1:
        return cast_signature(types[0], result)
    if types[0] in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return Signature(name, (result, STRING), result)
    return Signature(name, tuple(implicit(name, i, t, STRING) for i, t in enumerate(types)), result, native=False)


@function("to_date", "to_timestamp", types=_parsed_types)
def _parsed(call: Call) -> Kernel:
    return lambda value, *_: value

"""Times as text by a pattern (`yyyy-MM-dd`), and text read by one."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.errors import EvaluationError, first_true
from headgate.expressions.kernels.calendar import civil, days_from, valid_date
from headgate.expressions.kernels.dates import day_of_year, weekday
from headgate.expressions.kernels.parsing import numpy_true
from headgate.expressions.kernels.strings import constant
from headgate.expressions.kernels.zones import DAY, SECOND, instant, wall_clock
from headgate.expressions.registry import Kernel, Value, arrays, kernel
from headgate.expressions.typing_rules.formats import tokens
from headgate.graph.expressions import Call
from headgate.graph.types import BIGINT, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ

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


@kernel("date_format")
def _date_format(call: Call) -> Kernel:
    pattern = str(constant(call, 1))
    return lambda value, _: formatted(arrays(value)[0], pattern, call.option)


@kernel("from_unixtime")
def _from_unixtime(call: Call) -> Kernel:
    pattern = str(constant(call, 1)) if len(call.args) == 2 else _DEFAULT

    def run(value: Value, *_: Value) -> Value:
        (array,) = arrays(value)
        return formatted(rebuilt(numbers(array) * SECOND, TIMESTAMP, nulls(array)), pattern, call.option)

    return run


@kernel("to_date", "to_timestamp")
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

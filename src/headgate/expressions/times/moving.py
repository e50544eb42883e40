"""Adding units to times, counting units between times, and shifting times between zones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.coercion import implicit
from headgate.expressions.errors import EvaluationError, overflow
from headgate.expressions.kernels import Kernel, Value, arrays, constant
from headgate.expressions.registry import function
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments
from headgate.expressions.times.calendar import civil, plus_months
from headgate.expressions.times.dates import as_dates
from headgate.expressions.times.zones import DAY, SECOND, instant, instant_with_offset, java_zone, local, wall_clock
from headgate.graph.expressions import Call
from headgate.graph.types import BIGINT, DATE, INT, STRING, TIMESTAMP, TIMESTAMP_NTZ

MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": SECOND,
    "minute": 60 * SECOND,
    "hour": 3_600 * SECOND,
    "day": DAY,
}
"""Units of a fixed length, in microseconds."""


_MONTHS = {"month": 1, "quarter": 3, "year": 12}
UNITS: Sequence[str] = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
)
"""Units of timestampadd and timestampdiff."""


def _plus_months_types(name: str, types: Types, literals: Literals) -> Signature:
    """A date or time plus INTERVAL n MONTH or YEAR; the local time of day stays the same."""
    count_arguments(name, types, 2)
    if types[0] == DATE or types[0] == TIMESTAMP_NTZ:
        return Signature(name, (types[0], INT), types[0])
    return Signature(name, (implicit(name, 0, types[0], TIMESTAMP), INT), TIMESTAMP, zoned=True)


@function("plus_months", types=_plus_months_types, fails=True)
def _plus_months(call: Call) -> Kernel:
    def run(value: Value, by: Value) -> Value:
        array, months = arrays(value, by)
        return moved_by_months(array, numbers(months).astype(np.int64), nulls(array, months), call.option)

    return run


def moved_by_months(array: pa.Array, months: Numbers, missing: Numbers | None, zone: str) -> pa.Array:
    """Adds months: the local time of day stays; the day of the month is cut to the length of the month."""
    if array.type == DATE:
        return as_dates(plus_months(numbers(array), months), missing)
    clock = numbers(wall_clock(array, zone))
    days = plus_months(clock // DAY, months)
    if (np.abs(days if missing is None else np.where(missing, 0, days)) > 100_000_000).any():
        raise overflow("long overflow")
    moved = rebuilt(days * DAY + clock % DAY, TIMESTAMP_NTZ, missing)
    return moved if array.type == TIMESTAMP_NTZ else instant_with_offset(moved, zone, clock - numbers(array))


def _shifted_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    args = (implicit(name, 0, types[0], TIMESTAMP), implicit(name, 1, types[1], STRING))
    return Signature(name, args, TIMESTAMP, native=isinstance(literals[1], str))


@function("from_utc_timestamp", "to_utc_timestamp", types=_shifted_types)
def _shifted(call: Call) -> Kernel:
    name = str(constant(call, 1))
    zone = java_zone(name)
    if zone is None:
        raise EvaluationError("INVALID_TIMEZONE", f"The timezone: {name} is invalid.")
    if call.name == "from_utc_timestamp":
        return lambda value, _: local(arrays(value)[0], zone).view(TIMESTAMP)
    return lambda value, _: instant(arrays(value)[0].view(TIMESTAMP_NTZ), zone)


def _unit(name: str, literal: object | None) -> None:
    if not isinstance(literal, str) or literal.lower() not in UNITS:
        raise WrongArguments(f"the unit of {name} is one of {', '.join(UNITS)}, not {literal}", 0)


def _timestampadd_types(name: str, types: Types, literals: Literals) -> Signature:
    """Arguments: the unit as a string literal, the number of units, and the time."""
    count_arguments(name, types, 3)
    _unit(name, literals[0])
    time = types[2] if types[2] == TIMESTAMP_NTZ else implicit(name, 2, types[2], TIMESTAMP)
    args = (STRING, implicit(name, 1, types[1], BIGINT), time)
    return Signature(name, args, time, zoned=time == TIMESTAMP)


@function("timestampadd", types=_timestampadd_types, fails=True)
def _timestampadd(call: Call) -> Kernel:
    """Days and longer units are added in local time, hours and shorter units to the instant."""
    unit = str(constant(call, 0)).lower()
    zone = call.option

    def run(_: Value, count: Value, value: Value) -> Value:
        by, array = arrays(count, value)
        missing = nulls(by, array)
        amount = numbers(by)
        if unit in _MONTHS:
            return moved_by_months(array, amount * _MONTHS[unit], missing, zone)
        if unit in ("day", "week"):
            clock = numbers(wall_clock(array, zone))
            result = _sum(clock, amount * (7 if unit == "week" else 1), DAY, missing)
            moved = rebuilt(result, TIMESTAMP_NTZ, missing)
            return moved if call.type == TIMESTAMP_NTZ else instant_with_offset(moved, zone, clock - numbers(array))
        return rebuilt(_sum(numbers(array), amount, MICROSECONDS[unit], missing), call.type, missing)

    return run


def _sum(times: Numbers, amount: Numbers, unit: int, missing: Numbers | None) -> Numbers:
    rough = times.astype(np.float64) + amount.astype(np.float64) * unit
    outside = np.abs(rough) >= 2.0**63
    if (outside if missing is None else outside & ~missing).any():
        raise EvaluationError("DATETIME_OVERFLOW", "Datetime operation overflow.")
    return times + amount * unit


def _timestampdiff_types(name: str, types: Types, literals: Literals) -> Signature:
    """Arguments: the unit as a string literal, the start and the end."""
    count_arguments(name, types, 3)
    _unit(name, literals[0])
    args = (STRING, implicit(name, 1, types[1], TIMESTAMP), implicit(name, 2, types[2], TIMESTAMP))
    return Signature(name, args, BIGINT, zoned=True)


@function("timestampdiff", types=_timestampdiff_types)
def _timestampdiff(call: Call) -> Kernel:
    """Whole units between two local times, truncated towards zero."""
    unit = str(constant(call, 0)).lower()
    zone = call.option

    def run(_: Value, start: Value, end: Value) -> Value:
        first, last = arrays(start, end)
        missing = nulls(first, last)
        a, b = numbers(local(first, zone)), numbers(local(last, zone))
        if unit in _MONTHS:
            whole = np.trunc(_months_between(a, b) / _MONTHS[unit]).astype(np.int64)
            return rebuilt(whole, BIGINT, missing)
        size = 7 * DAY if unit == "week" else MICROSECONDS[unit]
        span = b - a
        return rebuilt(np.sign(span) * (np.abs(span) // size), BIGINT, missing)

    return run


def _months_between(a: Numbers, b: Numbers) -> Numbers:
    """Whole months from a to b, as java.time counts them."""
    (y1, m1, d1), (y2, m2, d2) = civil(a // DAY), civil(b // DAY)
    months = (y2 * 12 + m2) - (y1 * 12 + m1)
    early, late = d1 * DAY + a % DAY, d2 * DAY + b % DAY
    months = months - ((months > 0) & (late < early))
    return months + ((months < 0) & (late > early))

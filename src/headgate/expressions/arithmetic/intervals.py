"""Arithmetic of times and intervals: days are added in the session time zone, hours to the instant."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.errors import divide_by_zero, overflow
from headgate.expressions.kernels import Kernel, Value, arrays
from headgate.expressions.times.dates import wrapped
from headgate.expressions.times.zones import DAY, instant_with_offset, wall_clock
from headgate.graph.expressions import Call
from headgate.graph.types import BIGINT, DATE, INTERVAL, TIMESTAMP, TIMESTAMP_NTZ

_LIMIT = 2.0**63


def _sum(a: Numbers, b: Numbers, missing: Numbers | None, what: str) -> Numbers:
    """a + b, raising on overflow where neither is null."""
    with np.errstate(over="ignore"):
        result = a + b
    wrapped = ((a ^ result) & (b ^ result)) < 0
    if missing is not None:
        wrapped &= ~missing
    if wrapped.any():
        raise overflow(what)
    return result


def moved_by_days(times: pa.Array, days: Numbers, missing: Numbers | None, zone: str) -> Numbers:
    """Instants `days` later in local time; instants that move by 0 days stay unchanged."""
    if not days.any():
        return numbers(times)
    here = numbers(times)
    clock = numbers(wall_clock(times, zone))
    there = _sum(clock, days * DAY, missing, "long overflow")
    return np.where(
        days == 0, here, numbers(instant_with_offset(rebuilt(there, TIMESTAMP_NTZ, missing), zone, clock - here))
    )


def moved(call: Call) -> Kernel:
    """A time plus or minus an interval, a date plus or minus days."""
    sign = -1 if call.name.endswith("subtract") else 1
    flipped = call.args[1].type == call.type and call.args[0].type != call.type

    def run(a: Value, b: Value) -> Value:
        times, by = arrays(b, a) if flipped else arrays(a, b)
        missing = nulls(times, by)
        amount = numbers(by).astype(np.int64) * sign
        if call.type == DATE:
            days = amount // DAY if by.type == INTERVAL else amount
            return wrapped(numbers(times).astype(np.int64) + days, missing)
        if call.type == TIMESTAMP and call.option:
            # As in Spark: whole days, truncated towards zero, in local time; the rest to the instant.
            days = np.trunc(amount / DAY).astype(np.int64)
            start = moved_by_days(times, days, missing, call.option)
            return rebuilt(_sum(start, amount - days * DAY, missing, "long overflow"), TIMESTAMP, missing)
        return rebuilt(_sum(numbers(times), amount, missing, "long overflow"), call.type, missing)

    return run


def between(call: Call) -> Kernel:
    """The interval between two local times."""

    def run(a: Value, b: Value) -> Value:
        end, start = arrays(a, b)
        missing = nulls(end, start)
        last, first = numbers(wall_clock(end, call.option)), numbers(wall_clock(start, call.option))
        return rebuilt(_sum(last, -first, missing, "long overflow"), INTERVAL, missing)

    return run


def scaled(call: Call) -> Kernel:
    """An interval multiplied or divided by a number; fractions of a microsecond are rounded half up, away from zero."""
    flipped = call.args[1].type == INTERVAL

    def run(a: Value, b: Value) -> Value:
        interval, number = arrays(b, a) if flipped else arrays(a, b)
        missing = nulls(interval, number)
        micros, by = numbers(interval), numbers(number)
        exact = by.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rough = micros * exact if call.name == "multiply" else micros / exact
            outside = ~(np.abs(rough) < _LIMIT)
            if (outside if missing is None else outside & ~missing).any():
                raise overflow("Interval value overflows")
            if number.type == BIGINT:
                by = np.where(by == 0, 1, by) if call.name != "multiply" else by
                result = micros * by if call.name == "multiply" else _half_up(micros, by)
            else:
                kept = np.where(outside, 0, rough)
                result = (np.sign(kept) * np.floor(np.abs(kept) + 0.5)).astype(np.int64)
        return rebuilt(result, INTERVAL, missing)

    return run


def _half_up(a: Numbers, b: Numbers) -> Numbers:
    """a / b rounded half away from zero."""
    sign = np.sign(a) * np.sign(b)
    top, bottom = np.abs(a), np.abs(b)
    whole, rest = top // bottom, top % bottom
    return sign * (whole + (rest >= bottom - rest))


def whole_quotient(call: Call) -> Kernel:
    """The whole quotient of two intervals."""

    def run(a: Value, b: Value) -> Value:
        top, bottom = arrays(a, b)
        missing = nulls(top, bottom)
        x, y = numbers(top), numbers(bottom)
        zero = y == 0 if missing is None else (y == 0) & ~missing
        if zero.any():
            raise divide_by_zero()
        y = np.where(y == 0, 1, y)
        return rebuilt(np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y)), BIGINT, missing)

    return run

"""Functions of instants: windows, parts of the day, truncation, and seconds since 1970."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.errors import EvaluationError, overflow
from headgate.expressions.kernels.calendar import civil, plus_months
from headgate.expressions.kernels.dates import as_dates, floored
from headgate.expressions.kernels.parsing import java_zone
from headgate.expressions.kernels.strings import all_null, constant, null_literal
from headgate.expressions.kernels.zones import DAY, SECOND, instant, kept, local, wall_clock
from headgate.expressions.registry import Kernel, Value, arrays, kernel
from headgate.expressions.typing_rules.times import TRUNCATIONS
from headgate.graph.expressions import Call
from headgate.graph.types import BIGINT, DATE, INT, TIMESTAMP, TIMESTAMP_NTZ

_HOUR = 3_600 * SECOND
_SIZES = {"microsecond": 1, "millisecond": 1_000, "second": SECOND, "minute": 60 * SECOND, "hour": _HOUR, "day": DAY}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


@kernel("window")
def _window(call: Call) -> Kernel:
    """The tumbling window of a time; the option is "length,slide,offset" in microseconds, length = slide."""
    length, slide, offset = (int(part) for part in call.option.split(","))
    if length != slide:
        raise ValueError("only a tumbling window is a function of the row; a hopping window repeats rows")
    time = call.args[0].type

    def window(value: Value) -> Value:
        (array,) = arrays(value)
        times, missing = numbers(array), nulls(array)
        starts = times - (times - offset) % length
        members = [rebuilt(starts, time, missing), rebuilt(starts + length, time, missing)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(call.type), mask=mask)

    return window


@kernel("window_time")
def _window_time(call: Call) -> Kernel:
    def run(value: Value) -> Value:
        end = pc.struct_field(arrays(value)[0], [1])
        return rebuilt(numbers(end) - 1, call.type, nulls(end))

    return run


@kernel("hour", "minute", "second", "extract_seconds")
def _clock_part(call: Call) -> Kernel:
    zone = call.option

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        clock, missing = numbers(wall_clock(array, zone)), nulls(array)
        if call.name == "extract_seconds":
            micros = rebuilt(clock % (60 * SECOND), BIGINT, missing)
            plain = pc.cast(pc.cast(micros, pa.decimal128(19, 0)), pa.decimal128(8, 0))
            return pa.Array.from_buffers(call.type, len(plain), plain.buffers()[:2], offset=plain.offset)
        if call.name == "hour":
            part = clock // _HOUR % 24
        else:
            part = clock // (60 * SECOND if call.name == "minute" else SECOND) % 60
        return rebuilt(part, INT, missing)

    return run


@kernel("date_trunc")
def _date_trunc(call: Call) -> Kernel:
    """On the wall clock; NULL for a unit that is none."""
    unit = TRUNCATIONS.get(str(constant(call, 0)).lower())
    if null_literal(call) or unit is None:
        return all_null(call)
    zone = call.option

    def run(_: Value, value: Value) -> Value:
        (array,) = arrays(value)
        missing = nulls(array)
        if unit in ("microsecond", "millisecond", "second"):
            # No zone's offset has fractions of a second.
            micros = numbers(array)
            return rebuilt(micros - micros % _SIZES[unit], TIMESTAMP, missing)
        if unit in ("minute", "hour"):
            return _floored_on_time_line(array, unit, zone)
        days = numbers(local(array, zone)) // DAY
        first = days if unit == "day" else floored(days, unit)
        return instant(rebuilt(first * DAY, TIMESTAMP_NTZ, missing), zone)

    return run


def _floored_on_time_line(array: pa.Array, unit: str, zone: str) -> pa.Array:
    """Hours and minutes are cut off on the time line, by the offset that holds then: an hour that comes twice stays."""
    micros = numbers(array)
    offset = numbers(local(array, zone)) - micros
    shifted = micros + offset
    return rebuilt(shifted - shifted % _SIZES[unit] - offset, TIMESTAMP, nulls(array))


@kernel("unix_timestamp", "unix_seconds", "unix_millis", "unix_micros")
def _unix(call: Call) -> Kernel:
    unit = {"unix_millis": 1_000, "unix_micros": 1}.get(call.name, SECOND)
    zoned = call.args[0].type != TIMESTAMP

    def run(value: Value, *_: Value) -> Value:
        (array,) = arrays(value)
        instants = instant(wall_clock(array, call.option), call.option) if zoned else array
        micros = numbers(instants)
        if call.name == "unix_timestamp":
            # Towards zero, where unix_seconds goes down.
            return rebuilt(np.sign(micros) * (np.abs(micros) // SECOND), BIGINT, nulls(array))
        return rebuilt(micros // unit, BIGINT, nulls(array))

    return run


@kernel("timestamp_seconds", "timestamp_millis", "timestamp_micros")
def _from_unix(call: Call) -> Kernel:
    unit = {"timestamp_seconds": SECOND, "timestamp_millis": 1_000}.get(call.name, 1)

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        missing = nulls(array)
        if pa.types.is_floating(array.type):
            values = numbers(array)
            with np.errstate(invalid="ignore", over="ignore"):
                scaled = values * SECOND
                gone = ~np.isfinite(values)
            return rebuilt(
                np.where(gone, 0, scaled).astype(np.int64), TIMESTAMP, gone if missing is None else gone | missing
            )
        values = numbers(array)
        outside = np.abs(values.astype(np.float64)) * unit >= 2.0**63
        if (outside if missing is None else outside & ~missing).any():
            raise EvaluationError("DATETIME_OVERFLOW", "Datetime operation overflow: a number beyond the ends of time.")
        return rebuilt(values * unit, TIMESTAMP, missing)

    return run


@kernel("plus_months")
def _plus_months(call: Call) -> Kernel:
    def run(value: Value, by: Value) -> Value:
        array, months = arrays(value, by)
        return moved_by_months(array, numbers(months).astype(np.int64), nulls(array, months), call.option)

    return run


def moved_by_months(array: pa.Array, months: Numbers, missing: Numbers | None, zone: str) -> pa.Array:
    """The day of the month and the time of day stay, as far as the month has the day."""
    if array.type == DATE:
        return as_dates(plus_months(numbers(array), months), missing)
    clock = numbers(wall_clock(array, zone))
    days = plus_months(clock // DAY, months)
    if (np.abs(days if missing is None else np.where(missing, 0, days)) > 100_000_000).any():
        raise overflow("long overflow")
    moved = rebuilt(days * DAY + clock % DAY, TIMESTAMP_NTZ, missing)
    return moved if array.type == TIMESTAMP_NTZ else kept(moved, zone, clock - numbers(array))


@kernel("from_utc_timestamp", "to_utc_timestamp")
def _shifted(call: Call) -> Kernel:
    name = str(constant(call, 1))
    zone = java_zone(name)
    if zone is None:
        raise EvaluationError("INVALID_TIMEZONE", f"The timezone: {name} is invalid.")
    if call.name == "from_utc_timestamp":
        return lambda value, _: local(arrays(value)[0], zone).view(TIMESTAMP)
    return lambda value, _: instant(arrays(value)[0].view(TIMESTAMP_NTZ), zone)


@kernel("timestampadd")
def _timestampadd(call: Call) -> Kernel:
    """Days and more on the wall clock, hours and less on the time line."""
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
            return moved if call.type == TIMESTAMP_NTZ else kept(moved, zone, clock - numbers(array))
        return rebuilt(_sum(numbers(array), amount, _SIZES[unit], missing), call.type, missing)

    return run


def _sum(times: Numbers, amount: Numbers, unit: int, missing: Numbers | None) -> Numbers:
    rough = times.astype(np.float64) + amount.astype(np.float64) * unit
    outside = np.abs(rough) >= 2.0**63
    if (outside if missing is None else outside & ~missing).any():
        raise EvaluationError("DATETIME_OVERFLOW", "Datetime operation overflow.")
    return times + amount * unit


@kernel("timestampdiff")
def _timestampdiff(call: Call) -> Kernel:
    """Whole units between two times, towards zero."""
    unit = str(constant(call, 0)).lower()
    zone = call.option

    def run(_: Value, start: Value, end: Value) -> Value:
        first, last = arrays(start, end)
        missing = nulls(first, last)
        a, b = numbers(local(first, zone)), numbers(local(last, zone))
        if unit in _MONTHS:
            whole = np.trunc(_months_between(a, b) / _MONTHS[unit]).astype(np.int64)
            return rebuilt(whole, BIGINT, missing)
        size = 7 * DAY if unit == "week" else _SIZES[unit]
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

"""Functions of instants: windows, parts of the day, truncation, and seconds since 1970."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.coercion import implicit, is_decimal, is_floating
from headgate.expressions.errors import EvaluationError
from headgate.expressions.kernels import Kernel, Value, all_null, arrays, constant, null_literal
from headgate.expressions.registry import function, typed
from headgate.expressions.signature import Literals, Rule, Signature, Types, WrongArguments, count_arguments
from headgate.expressions.times.dates import TRUNCATIONS, floored
from headgate.expressions.times.moving import MICROSECONDS
from headgate.expressions.times.zones import DAY, SECOND, instant, local, wall_clock
from headgate.graph.expressions import Call
from headgate.graph.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    WINDOW,
    WINDOW_NTZ,
    is_integral,
    is_numeric,
    sql_name,
)

_HOUR = 3_600 * SECOND


def _window_types(name: str, types: Types, literals: Literals) -> Signature:
    """The tumbling window that contains a time; the option is "length,slide,offset" in microseconds."""
    count_arguments(name, types, 1)
    if types[0] == TIMESTAMP_NTZ:
        return Signature(name, types, WINDOW_NTZ)
    return Signature(name, (implicit(name, 0, types[0], TIMESTAMP),), WINDOW)


@function("window", types=_window_types)
def _window(call: Call) -> Kernel:
    """Only tumbling windows: length equals slide."""
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


def _window_time_types(name: str, types: Types, literals: Literals) -> Signature:
    """The last microsecond of a window."""
    count_arguments(name, types, 1)
    if types[0] not in (WINDOW, WINDOW_NTZ):
        raise WrongArguments(f"window_time takes a window, not {sql_name(types[0])}", 0)
    return Signature(name, types, types[0].field(1).type)


@function("window_time", types=_window_time_types)
def _window_time(call: Call) -> Kernel:
    def run(value: Value) -> Value:
        end = pc.struct_field(arrays(value)[0], [1])
        return rebuilt(numbers(end) - 1, call.type, nulls(end))

    return run


def _clock_types(result: pa.DataType) -> Rule:
    def rule(name: str, types: Types, literals: Literals) -> Signature:
        count_arguments(name, types, 1)
        if types[0] == TIMESTAMP_NTZ:
            return Signature(name, types, result)
        return Signature(name, (implicit(name, 0, types[0], TIMESTAMP),), result, zoned=True)

    return rule


@function("hour", "minute", "second", types=_clock_types(INT))
# EXTRACT(SECOND FROM …) has decimals, second() has none.
@function("extract_seconds", types=_clock_types(pa.decimal128(8, 6)))
def _clock_part(call: Call) -> Kernel:
    zone = call.option

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        clock, missing = numbers(wall_clock(array, zone)), nulls(array)
        if call.name == "extract_seconds":
            return decimal_seconds(clock % (60 * SECOND), missing)
        if call.name == "hour":
            part = clock // _HOUR % 24
        else:
            part = clock // (60 * SECOND if call.name == "minute" else SECOND) % 60
        return rebuilt(part, INT, missing)

    return run


def decimal_seconds(micros: Numbers, missing: Numbers | None) -> pa.Array:
    """Microseconds below a minute as seconds with six decimals."""
    plain = pc.cast(pc.cast(rebuilt(micros, BIGINT, missing), pa.decimal128(19, 0)), pa.decimal128(8, 0))
    return pa.Array.from_buffers(pa.decimal128(8, 6), len(plain), plain.buffers()[:2], offset=plain.offset)


def _date_trunc_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    unit = implicit(name, 0, types[0], STRING)
    native = isinstance(literals[0], str)
    return Signature(name, (unit, implicit(name, 1, types[1], TIMESTAMP)), TIMESTAMP, native, zoned=True)


@function("date_trunc", types=_date_trunc_types)
def _date_trunc(call: Call) -> Kernel:
    """Truncates on the wall clock; NULL for an unknown unit."""
    unit = TRUNCATIONS.get(str(constant(call, 0)).lower())
    if null_literal(call) or unit is None:
        return all_null(call)
    zone = call.option

    def run(_: Value, value: Value) -> Value:
        (array,) = arrays(value)
        missing = nulls(array)
        if unit in ("microsecond", "millisecond", "second"):
            # Offsets of time zones are whole seconds.
            micros = numbers(array)
            return rebuilt(micros - micros % MICROSECONDS[unit], TIMESTAMP, missing)
        if unit in ("minute", "hour"):
            return _floored_on_time_line(array, unit, zone)
        days = numbers(local(array, zone)) // DAY
        first = days if unit == "day" else floored(days, unit)
        return instant(rebuilt(first * DAY, TIMESTAMP_NTZ, missing), zone)

    return run


def _floored_on_time_line(array: pa.Array, unit: str, zone: str) -> pa.Array:
    """Truncates to hours and minutes by the offset in force, so that the two hours of a clock change stay distinct."""
    micros = numbers(array)
    offset = numbers(local(array, zone)) - micros
    shifted = micros + offset
    return rebuilt(shifted - shifted % MICROSECONDS[unit] - offset, TIMESTAMP, nulls(array))


def _unix_timestamp_types(name: str, types: Types, literals: Literals) -> Signature:
    """Native for dates and times. Catalyst parses text, and gives the time of the batch if there are no arguments."""
    count_arguments(name, types, 0, 2)
    if types and types[0] in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        zoned = types[0] != TIMESTAMP
        return Signature(name, (types[0], *(STRING,) * (len(types) - 1)), BIGINT, zoned=zoned)
    return Signature(name, types, BIGINT, native=False)


def _to_unix_timestamp_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 2)
    return _unix_timestamp_types("unix_timestamp", types, literals)


def _unix_types(name: str, types: Types, literals: Literals) -> Signature:
    """Spark casts nothing to TIMESTAMP here."""
    count_arguments(name, types, 1)
    if types[0] not in (TIMESTAMP, NULL):
        raise WrongArguments(f"{name} takes a TIMESTAMP, not {sql_name(types[0])}", 0)
    return Signature(name, (TIMESTAMP,), BIGINT)


typed("to_unix_timestamp", types=_to_unix_timestamp_types)


@function("unix_timestamp", types=_unix_timestamp_types)
@function("unix_seconds", "unix_millis", "unix_micros", types=_unix_types)
def _unix(call: Call) -> Kernel:
    unit = {"unix_millis": 1_000, "unix_micros": 1}.get(call.name, SECOND)
    zoned = call.args[0].type != TIMESTAMP

    def run(value: Value, *_: Value) -> Value:
        (array,) = arrays(value)
        instants = instant(wall_clock(array, call.option), call.option) if zoned else array
        micros = numbers(instants)
        if call.name == "unix_timestamp":
            # Truncates towards zero; unix_seconds rounds down.
            return rebuilt(np.sign(micros) * (np.abs(micros) // SECOND), BIGINT, nulls(array))
        return rebuilt(micros // unit, BIGINT, nulls(array))

    return run


def _from_unix_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if not is_numeric(types[0]) and types[0] != NULL:
        raise WrongArguments(f"{name} takes a number, not {sql_name(types[0])}", 0)
    if name == "timestamp_seconds" and (is_floating(types[0]) or is_decimal(types[0])):
        native = not is_decimal(types[0])
        return Signature(name, (DOUBLE if native else types[0],), TIMESTAMP, native)
    if not is_integral(types[0]) and types[0] != NULL:
        raise WrongArguments(f"{name} takes an integer, not {sql_name(types[0])}", 0)
    return Signature(name, (BIGINT,), TIMESTAMP)


@function("timestamp_seconds", "timestamp_millis", types=_from_unix_types, fails=True)
@function("timestamp_micros", types=_from_unix_types)
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
            raise EvaluationError("DATETIME_OVERFLOW", "Datetime operation overflow: the number is out of range.")
        return rebuilt(values * unit, TIMESTAMP, missing)

    return run

"""CAST and TRY_CAST: Spark's ANSI conversions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.arithmetic.decimals import out_of_range, rescaled, truncated, unscaled
from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.casts import parsing
from headgate.expressions.casts.texts import text
from headgate.expressions.coercion import can_cast, decimal_of, is_decimal, is_floating, is_nested
from headgate.expressions.errors import EvaluationError, first_true
from headgate.expressions.kernels import Kernel, Value, arrays
from headgate.expressions.registry import function, typed
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments
from headgate.expressions.times.zones import SECOND, date_of, instant, wall_clock
from headgate.graph.expressions import Call
from headgate.graph.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    SMALLINT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    is_integral,
    is_numeric,
    sql_name,
)

_TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
_NAMED = {
    "boolean": BOOLEAN,
    "tinyint": TINYINT,
    "smallint": SMALLINT,
    "int": INT,
    "bigint": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "decimal": pa.decimal128(10, 0),
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
}
"""Types whose names are functions that cast: `int(x)`."""


Cast = Callable[[pa.Array], tuple[pa.Array, pa.BooleanArray | None]]
"""Gives the values (null where the cast fails) and where it fails, None if nowhere."""


def native_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a kernel casts them; Catalyst casts intervals, TIME, nested values to text, BINARY to all but text."""
    if given in (wanted, NULL):
        return True
    if is_nested(given):
        return is_nested(wanted) and _native_inside(given, wanted)
    if INTERVAL in (given, wanted) or TIME in (given, wanted):
        return False
    if BINARY in (given, wanted):
        return STRING in (given, wanted)
    return True


def _native_inside(given: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_struct(given):
        return all(native_cast(a.type, b.type) for a, b in zip(given, wanted, strict=True))
    if pa.types.is_map(given):
        return bool(given.key_type == wanted.key_type) and native_cast(given.item_type, wanted.item_type)
    return native_cast(given.value_type, wanted.value_type)


def zoned_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the result depends on the session time zone."""
    if is_nested(given) and is_nested(wanted):
        inside = [(f.type, w.type) for f, w in zip(_parts(given), _parts(wanted), strict=True)]
        return any(zoned_cast(a, b) for a, b in inside)
    pair = (given, wanted)
    return given != wanted and TIMESTAMP in pair and any(t in pair for t in (STRING, DATE, TIMESTAMP_NTZ))


def _parts(type_: pa.DataType) -> list[pa.Field]:
    return [type_.field(i) for i in range(type_.num_fields)]


def cast_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    """Whether a cast may raise on some row."""
    given = args[0]
    if given in (result, NULL) or result == STRING:
        return False
    if given == STRING:
        return bool(result != BINARY)
    if is_nested(given):
        if pa.types.is_map(given):
            return cast_fails((given.item_type,), result.item_type, (None,))
        inside = zip(_parts(given), _parts(result), strict=True)
        return any(cast_fails((a.type,), b.type, (None,)) for a, b in inside)
    if given == BOOLEAN:
        return is_decimal(result) and result.precision == result.scale
    if is_numeric(given):
        return _number_fails(given, result)
    if given in _TIMES:
        # Casts between dates and times succeed; seconds since 1970 may not fit a small integer.
        return (is_integral(result) and result.bit_width < 64) or is_decimal(result)
    return True


def _number_fails(given: pa.DataType, result: pa.DataType) -> bool:
    if is_floating(result) or result == BOOLEAN:
        return False
    if is_integral(given) and is_integral(result):
        return bool(result.bit_width < given.bit_width)
    if is_decimal(result) and not is_floating(given):
        source = decimal_of(given)
        digits = source.precision - source.scale
        # Rounding to fewer places may carry into one more digit.
        carry = 1 if source.scale > result.scale else 0
        return bool(digits + carry > result.precision - result.scale)
    return True


def cast_signature(given: pa.DataType, wanted: pa.DataType, name: str = "cast") -> Signature:
    """The signature of a cast; WrongArguments where Spark refuses it."""
    if not can_cast(given, wanted):
        raise WrongArguments(f"cannot cast {sql_name(given)} to {sql_name(wanted)}", 0)
    return Signature(
        name,
        (given,),
        wanted,
        native=native_cast(given, wanted),
        fallible=name == "cast" and cast_fails((given,), wanted, (None,)),
        zoned=zoned_cast(given, wanted),
    )


def _named_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    return cast_signature(types[0], _NAMED[name])


typed(*_NAMED, types=_named_types)


@function("cast", types=None, fails=cast_fails)
@function("try_cast", types=None)
def _cast(call: Call) -> Kernel:
    given, wanted = call.args[0].type, call.type
    strict = call.name == "cast"
    run = caster(given, wanted, call.option, strict)

    def convert(value: Value) -> Value:
        (array,) = arrays(value)
        result, bad = run(array)
        if bad is not None and strict:
            raise _error(array[first_true(bad) or 0].as_py(), given, wanted)
        return result

    return convert


def _error(value: Any, given: pa.DataType, wanted: pa.DataType) -> EvaluationError:
    to = sql_name(wanted)
    if given == STRING:
        return EvaluationError(
            "CAST_INVALID_INPUT",
            f'The value \'{value}\' of the type "STRING" cannot be cast to "{to}" because it is malformed. Correct '
            "the value as per the syntax, or change its target type. Use `try_cast` to tolerate malformed input and "
            "return NULL instead.",
        )
    if pa.types.is_decimal(wanted):
        return out_of_range(value, wanted)
    return EvaluationError(
        "CAST_OVERFLOW",
        f'The value {value} of the type "{sql_name(given)}" cannot be cast to "{to}" due to an overflow. '
        "Use `try_cast` to tolerate overflow and return NULL instead.",
    )


def _infallible(run: Callable[[pa.Array], pa.Array]) -> Cast:
    return lambda array: (run(array), None)


def caster(given: pa.DataType, wanted: pa.DataType, zone: str, strict: bool = True) -> Cast:
    """The conversion from one type to another. Elements that fail raise, or are NULL if it is not `strict`."""
    if given == wanted:
        return _infallible(lambda array: array)
    if pa.types.is_null(given):
        return _infallible(lambda array: pa.nulls(len(array), wanted))
    if pa.types.is_nested(given):
        return _nested(given, wanted, zone, strict)
    if wanted == STRING:
        if given == BINARY:
            return _infallible(_decoded)
        return _infallible(lambda array: text(array, zone))
    if given == STRING:
        return _from_text(wanted, zone)
    if given == BOOLEAN:
        return _from_boolean(wanted)
    if given in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return _from_time(given, wanted, zone)
    return _from_number(given, wanted)


def _decoded(array: pa.Array) -> pa.Array:
    try:
        return pc.cast(array, STRING)
    except pa.ArrowInvalid:
        # Java replaces bytes that are not UTF-8; this rare case is a Python loop.
        return pa.array([None if v is None else v.decode("utf-8", "replace") for v in array.to_pylist()], STRING)


def _from_text(wanted: pa.DataType, zone: str) -> Cast:
    if is_integral(wanted):
        return lambda array: parsing.integers(array, wanted)
    if pa.types.is_floating(wanted):
        return lambda array: parsing.floats(array, wanted)
    if pa.types.is_decimal(wanted):
        return lambda array: _decimal_text(array, wanted)
    if wanted == BOOLEAN:
        return parsing.booleans
    if wanted == DATE:
        return parsing.dates
    if wanted == BINARY:
        return _infallible(lambda array: pc.cast(array, BINARY))
    return lambda array: parsing.times(array, wanted, zone)


def _decimal_text(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    values, malformed, too_big = parsing.decimals(array, wanted)
    if malformed is None or too_big is None:
        return values, malformed if too_big is None else too_big
    return values, pc.or_(malformed, too_big)


def _from_boolean(wanted: pa.DataType) -> Cast:
    if pa.types.is_decimal(wanted):
        as_integer = caster(pa.int32(), wanted, "")
        return lambda array: as_integer(pc.cast(array, pa.int32()))
    return _infallible(lambda array: pc.cast(array, wanted))


def _from_number(given: pa.DataType, wanted: pa.DataType) -> Cast:
    if wanted == BOOLEAN:
        zero = pa.scalar(0, given)
        return _infallible(lambda array: pc.not_equal(array, zero))
    if wanted == TIMESTAMP:
        return _seconds(given)
    if pa.types.is_floating(given):
        if pa.types.is_floating(wanted):
            return _infallible(lambda array: pc.cast(array, wanted, safe=False))
        if pa.types.is_decimal(wanted):
            return lambda array: _float_to_decimal(array, wanted)
        return lambda array: _truncated(array, wanted)
    if pa.types.is_decimal(given):
        return _from_decimal(given, wanted)
    if pa.types.is_decimal(wanted):
        whole = pa.decimal128(19, 0)
        return lambda array: rescaled(pc.cast(pc.cast(array, BIGINT), whole), wanted)
    if pa.types.is_floating(wanted) or wanted.bit_width >= given.bit_width:
        return _infallible(lambda array: pc.cast(array, wanted, safe=False))
    return lambda array: _fitting(array, wanted)


def _fitting(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Integers as a smaller integral type."""
    width = 2 ** (wanted.bit_width - 1)
    values = numbers(array)
    outside = (values < -width) | (values >= width)
    return _checked(values, outside, array, wanted)


def _checked(
    values: Numbers, outside: Numbers, array: pa.Array, wanted: pa.DataType
) -> tuple[pa.Array, pa.BooleanArray | None]:
    missing = nulls(array)
    if missing is not None:
        outside = outside & ~missing
    if not outside.any():
        return rebuilt(np.where(missing, 0, values) if missing is not None else values, wanted, missing), None
    gone = outside if missing is None else outside | missing
    return rebuilt(np.where(gone, 0, values), wanted, gone), pa.array(outside)


def _truncated(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Truncates floating-point numbers to integers; 2^63 becomes the greatest BIGINT, as in Java."""
    values = numbers(array)
    width = 2.0 ** (wanted.bit_width - 1)
    with np.errstate(invalid="ignore"):
        if wanted == BIGINT:
            outside = ~((np.floor(values) <= width) & (np.ceil(values) >= -width))
        else:
            outside = ~((np.floor(values) <= width - 1) & (np.ceil(values) >= -width))
        whole = np.trunc(np.where(outside, 0, values)).astype(np.float64)
        at_edge = whole >= 2.0**63
        integers = np.where(at_edge, 0, whole).astype(np.int64)
    integers = np.where(at_edge, np.iinfo(np.int64).max, integers)
    return _checked(integers, outside, array, wanted)


def _float_to_decimal(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    """By the shortest decimal text, as Java's BigDecimal.valueOf."""
    doubles = pc.cast(array, DOUBLE)
    # NaN and infinity become NULL, without an error.
    finite = pc.if_else(pc.is_finite(doubles), doubles, pa.scalar(None, DOUBLE))
    return _decimal_text(pc.cast(finite, STRING), wanted)


def _from_decimal(given: pa.DataType, wanted: pa.DataType) -> Cast:
    if pa.types.is_decimal(wanted):
        return lambda array: rescaled(array, wanted)
    if pa.types.is_floating(wanted):
        return _infallible(lambda array: pc.cast(pc.cast(decimal_as_double(array), wanted), wanted))
    return lambda array: _decimal_to_integer(array, wanted)


def decimal_as_double(array: pa.Array) -> pa.Array:
    """The nearest DOUBLE: by one division up to 15 digits, otherwise by parsing the text, which rounds once."""
    precision, scale = array.type.precision, array.type.scale
    if precision <= 15:
        whole = pa.Array.from_buffers(pa.decimal128(precision, 0), len(array), array.buffers()[:2], offset=array.offset)
        return pc.divide(pc.cast(pc.cast(whole, BIGINT), DOUBLE), pa.scalar(10.0**scale))
    return pc.cast(pc.cast(array, STRING), DOUBLE)


def _decimal_to_integer(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    return _as_integers(truncated(unscaled(array), array.type.scale), wanted)


def _as_integers(whole: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Unscaled integers as an integral type."""
    width = Decimal(2 ** (wanted.bit_width - 1))
    low, high = pa.scalar(-width, whole.type), pa.scalar(width, whole.type)
    bad: pa.BooleanArray | None = pc.fill_null(pc.or_(pc.less(whole, low), pc.greater_equal(whole, high)), False)
    if pc.any(bad).as_py():
        whole = pc.if_else(bad, pa.scalar(None, whole.type), whole)
    else:
        bad = None
    return pc.cast(pc.cast(whole, pa.decimal128(38, 0), safe=False), wanted), bad


def _seconds(given: pa.DataType) -> Cast:
    """Numbers are seconds since 1970."""

    def convert(array: pa.Array) -> tuple[pa.Array, pa.BooleanArray | None]:
        if pa.types.is_decimal(given):
            longs, bad = _as_integers(truncated(unscaled(array), given.scale - 6), BIGINT)
            return longs.view(TIMESTAMP), bad
        if is_integral(given):
            values = numbers(array).astype(np.int64)
            edge = np.iinfo(np.int64).max // SECOND
            limits = np.iinfo(np.int64)
            micros = np.where(values > edge, limits.max, np.where(values < -edge, limits.min, values * SECOND))
            return rebuilt(micros, TIMESTAMP, nulls(array)), None
        values = numbers(array).astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = values * float(SECOND)
            bad = ~np.isfinite(values)
            high = scaled >= 2.0**63
            low = scaled <= -(2.0**63)
            plain = np.where(bad | high | low, 0, scaled).astype(np.int64)
        limits = np.iinfo(np.int64)
        return _checked(np.where(high, limits.max, np.where(low, limits.min, plain)), bad, array, TIMESTAMP)

    return convert


def _from_time(given: pa.DataType, wanted: pa.DataType, zone: str) -> Cast:
    if wanted == DATE:
        return _infallible(lambda array: date_of(array, zone))
    if wanted == TIMESTAMP_NTZ:
        return _infallible(lambda array: wall_clock(array, zone))
    if wanted == TIMESTAMP:
        return _infallible(lambda array: instant(wall_clock(array, zone), zone))
    if pa.types.is_floating(wanted):
        return _infallible(lambda array: rebuilt(numbers(array) / SECOND, wanted, nulls(array)))
    if pa.types.is_decimal(wanted):
        return lambda array: rescaled(_decimal_seconds(array), wanted)
    return lambda array: _fitting(rebuilt(numbers(array) // SECOND, BIGINT, nulls(array)), wanted)


def _decimal_seconds(array: pa.Array) -> pa.Array:
    """Instants as exact seconds since 1970."""
    micros = pc.cast(rebuilt(numbers(array), BIGINT, nulls(array)), pa.decimal128(19, 0))
    return pa.Array.from_buffers(pa.decimal128(19, 6), len(micros), micros.buffers()[:2], offset=micros.offset)


def _nested(given: pa.DataType, wanted: pa.DataType, zone: str, strict: bool) -> Cast:
    """Casts member by member; where the cast is strict, a member that fails makes the whole cast fail."""
    if pa.types.is_struct(given):
        return _struct(given, wanted, zone, strict)
    inside = caster(_inner(given), _inner(wanted), zone, strict)

    def convert(array: pa.Array) -> tuple[pa.Array, pa.BooleanArray | None]:
        if pa.types.is_map(given):
            flat = array.items[array.offsets[0].as_py() : array.offsets[-1].as_py()]
            values, bad = inside(flat)
            _refuse_inside(flat, bad if strict else None, given, wanted)
            keys = array.keys[array.offsets[0].as_py() : array.offsets[-1].as_py()]
            return pa.MapArray.from_arrays(_offsets(array), keys, values, wanted, mask=_mask(array)), None
        flat = array.flatten()
        values, bad = inside(flat)
        _refuse_inside(flat, bad if strict else None, given, wanted)
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        ends = np.concatenate([[0], np.cumsum(numbers(lengths))])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values, wanted, mask=_mask(array)), None

    return convert


def _mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None


def _inner(type_: pa.DataType) -> pa.DataType:
    return type_.item_type if pa.types.is_map(type_) else type_.value_type


def _offsets(array: pa.Array) -> pa.Array:
    return pc.subtract(array.offsets, array.offsets[0])


def _refuse_inside(flat: pa.Array, bad: pa.BooleanArray | None, given: pa.DataType, wanted: pa.DataType) -> None:
    if bad is not None:
        raise _error(flat[first_true(bad) or 0].as_py(), _inner(given), _inner(wanted))


def _struct(given: pa.DataType, wanted: pa.DataType, zone: str, strict: bool) -> Cast:
    runs = [caster(a.type, b.type, zone, strict) for a, b in zip(given, wanted, strict=True)]

    def convert(array: pa.Array) -> tuple[pa.Array, pa.BooleanArray | None]:
        members, failed = [], None
        for i, run in enumerate(runs):
            values, bad = run(pc.struct_field(array, [i]))
            members.append(values)
            failed = bad if failed is None else failed if bad is None else pc.or_(failed, bad)
        return pa.StructArray.from_arrays(members, fields=list(wanted), mask=_mask(array)), failed

    return convert

"""CAST and TRY_CAST: Spark's ANSI conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.arithmetic.decimals import out_of_range, rescaled
from headgate.expressions.buffers import nulls, numbers, rebuilt
from headgate.expressions.casts import parsing
from headgate.expressions.casts.numbers import Cast, decimal_text, fitting, from_boolean, from_number, infallible
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


def caster(given: pa.DataType, wanted: pa.DataType, zone: str, strict: bool = True) -> Cast:
    """The conversion from one type to another. Elements that fail raise, or are NULL if it is not `strict`."""
    if given == wanted:
        return infallible(lambda array: array)
    if pa.types.is_null(given):
        return infallible(lambda array: pa.nulls(len(array), wanted))
    if pa.types.is_nested(given):
        return _nested(given, wanted, zone, strict)
    if wanted == STRING:
        if given == BINARY:
            return infallible(_decoded)
        return infallible(lambda array: text(array, zone))
    if given == STRING:
        return _from_text(wanted, zone)
    if given == BOOLEAN:
        return from_boolean(wanted)
    if given in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return _from_time(given, wanted, zone)
    return from_number(given, wanted)


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
        return lambda array: decimal_text(array, wanted)
    if wanted == BOOLEAN:
        return parsing.booleans
    if wanted == DATE:
        return parsing.dates
    if wanted == BINARY:
        return infallible(lambda array: pc.cast(array, BINARY))
    return lambda array: parsing.times(array, wanted, zone)


def _from_time(given: pa.DataType, wanted: pa.DataType, zone: str) -> Cast:
    if wanted == DATE:
        return infallible(lambda array: date_of(array, zone))
    if wanted == TIMESTAMP_NTZ:
        return infallible(lambda array: wall_clock(array, zone))
    if wanted == TIMESTAMP:
        return infallible(lambda array: instant(wall_clock(array, zone), zone))
    if pa.types.is_floating(wanted):
        return infallible(lambda array: rebuilt(numbers(array) / SECOND, wanted, nulls(array)))
    if pa.types.is_decimal(wanted):
        return lambda array: rescaled(_decimal_seconds(array), wanted)
    return lambda array: fitting(rebuilt(numbers(array) // SECOND, BIGINT, nulls(array)), wanted)


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

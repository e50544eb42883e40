"""Casts of numbers and truth values to numbers, and of numbers to instants, by Spark's ANSI rules."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.arithmetic.decimals import rescaled, truncated, unscaled
from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.casts import parsing
from headgate.expressions.times.zones import SECOND
from headgate.graph.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, is_integral

Cast = Callable[[pa.Array], tuple[pa.Array, pa.BooleanArray | None]]
"""Gives the values (null where the cast fails) and where it fails, None if nowhere."""


def infallible(run: Callable[[pa.Array], pa.Array]) -> Cast:
    """A cast that fails for no value."""
    return lambda array: (run(array), None)


def from_boolean(wanted: pa.DataType) -> Cast:
    """The cast of truth values: 1 and 0."""
    if pa.types.is_decimal(wanted):
        as_integer = from_number(pa.int32(), wanted)
        return lambda array: as_integer(pc.cast(array, pa.int32()))
    return infallible(lambda array: pc.cast(array, wanted))


def from_number(given: pa.DataType, wanted: pa.DataType) -> Cast:
    """The cast of numbers of a type."""
    if wanted == BOOLEAN:
        zero = pa.scalar(0, given)
        return infallible(lambda array: pc.not_equal(array, zero))
    if wanted == TIMESTAMP:
        return _seconds(given)
    if pa.types.is_floating(given):
        if pa.types.is_floating(wanted):
            return infallible(lambda array: pc.cast(array, wanted, safe=False))
        if pa.types.is_decimal(wanted):
            return lambda array: _float_to_decimal(array, wanted)
        return lambda array: _truncated(array, wanted)
    if pa.types.is_decimal(given):
        return _from_decimal(given, wanted)
    if pa.types.is_decimal(wanted):
        whole = pa.decimal128(19, 0)
        return lambda array: rescaled(pc.cast(pc.cast(array, BIGINT), whole), wanted)
    if pa.types.is_floating(wanted) or wanted.bit_width >= given.bit_width:
        return infallible(lambda array: pc.cast(array, wanted, safe=False))
    return lambda array: fitting(array, wanted)


def fitting(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
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
    # In FLOAT, the greatest INT is 2^31.
    values = numbers(array).astype(np.float64)
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
    return decimal_text(pc.cast(finite, STRING), wanted)


def _from_decimal(given: pa.DataType, wanted: pa.DataType) -> Cast:
    if pa.types.is_decimal(wanted):
        return lambda array: rescaled(array, wanted)
    if pa.types.is_floating(wanted):
        return infallible(lambda array: pc.cast(pc.cast(decimal_as_double(array), wanted), wanted))
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


def decimal_text(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.BooleanArray | None]:
    """Texts as decimals: null where one is malformed or too big."""
    values, malformed, too_big = parsing.decimals(array, wanted)
    if malformed is None or too_big is None:
        return values, malformed if too_big is None else too_big
    return values, pc.or_(malformed, too_big)

"""Spark's conversions in ANSI mode: least common types, what may be cast, and the types of decimal arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from headgate.expressions.signature import WrongArguments
from headgate.graph.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
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

MAX_PRECISION = 38
_MIN_ADJUSTED_SCALE = 6
_INTEGRAL_ORDER = (TINYINT, SMALLINT, INT, BIGINT)
_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}
_TIMES = (DATE, TIMESTAMP_NTZ, TIMESTAMP)
_ATOMIC = (BOOLEAN, BINARY, INTERVAL, TIME, *_TIMES)


def is_decimal(type_: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(type_))


def is_floating(type_: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type_))


def is_nested(type_: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type_))


def is_atomic(type_: pa.DataType) -> bool:
    return is_numeric(type_) or type_ == STRING or type_ in _ATOMIC


def bounded(precision: int, scale: int) -> pa.DataType:
    """DECIMAL with precision and scale limited to 38 digits each."""
    return pa.decimal128(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def adjusted(precision: int, scale: int) -> pa.DataType:
    """DECIMAL cut to 38 digits as Spark does (spark.sql.decimalOperations.allowPrecisionLoss): the scale gives way,
    but keeps up to 6 digits.

    >>> adjusted(48, 20)
    Decimal128Type(decimal128(38, 10))
    """
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, _MIN_ADJUSTED_SCALE)))


def decimal_of(type_: pa.DataType, literal: object | None = None) -> pa.DataType:
    """The decimal that holds every value of an integral type; for a literal, just its digits."""
    if is_decimal(type_):
        return type_
    if isinstance(literal, int) and not isinstance(literal, bool):
        return pa.decimal128(max(1, len(str(abs(literal)))), 0)
    return pa.decimal128(_DIGITS[type_], 0)


def wider_decimal(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """The decimal that holds the values of both; the scale gives way to the digits before the point."""
    scale = max(first.scale, second.scale)
    whole = max(first.precision - first.scale, second.precision - second.scale)
    if whole + scale > MAX_PRECISION:
        return pa.decimal128(MAX_PRECISION, max(0, MAX_PRECISION - whole))
    return pa.decimal128(whole + scale, scale)


def common_numeric(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """The wider of two numeric types; FLOAT with any other is DOUBLE, so that no digits are lost."""
    if first == second:
        return first
    if is_floating(first) or is_floating(second):
        return DOUBLE
    if is_decimal(first) or is_decimal(second):
        return wider_decimal(decimal_of(first), decimal_of(second))
    return _INTEGRAL_ORDER[max(_INTEGRAL_ORDER.index(first), _INTEGRAL_ORDER.index(second))]


def _with_string(other: pa.DataType) -> pa.DataType | None:
    if is_integral(other):
        return BIGINT
    if is_numeric(other):
        return DOUBLE
    return other if other in _ATOMIC and other != INTERVAL else None


def common_type_of_two(first: pa.DataType, second: pa.DataType, strings: bool = True) -> pa.DataType | None:
    """Spark's least common type, or None. `strings`: whether STRING gives way to other atomic types."""
    if first == second or second == NULL:
        return first
    if first == NULL:
        return second
    if is_numeric(first) and is_numeric(second):
        return common_numeric(first, second)
    if first in _TIMES and second in _TIMES:
        return _TIMES[max(_TIMES.index(first), _TIMES.index(second))]
    if strings and STRING in (first, second):
        return _with_string(second if first == STRING else first)
    if pa.types.is_map(first) and pa.types.is_map(second):
        key = common_type_of_two(first.key_type, second.key_type, strings)
        item = common_type_of_two(first.item_type, second.item_type, strings)
        return pa.map_(key, item) if key is not None and item is not None else None
    if pa.types.is_list(first) and pa.types.is_list(second):
        inside = common_type_of_two(first.value_type, second.value_type, strings)
        return pa.list_(inside) if inside is not None else None
    if pa.types.is_struct(first) and pa.types.is_struct(second) and first.num_fields == second.num_fields:
        parts = []
        for a, b in zip(first, second, strict=True):
            part = common_type_of_two(a.type, b.type, strings)
            if part is None or a.name.lower() != b.name.lower():
                return None
            parts.append(pa.field(a.name, part))
        return pa.struct(parts)
    return None


def common_type(types: Iterable[pa.DataType], what: str = "these values", strings: bool = True) -> pa.DataType:
    """Spark's least common type (NULL alone is VOID); raises WrongArguments where there is none.

    >>> common_type([pa.int32(), pa.decimal128(2, 1)])
    Decimal128Type(decimal128(11, 1))
    >>> common_type([pa.int32(), pa.string()])
    DataType(int64)
    """
    listed = list(types)
    common: pa.DataType | None = NULL
    # A string gives way to what the others agree on, so strings come last (as in Spark's findWiderCommonType).
    for position, type_ in sorted(enumerate(listed), key=lambda p: p[1] == STRING):
        wider = common_type_of_two(common, type_, strings)
        if wider is None:
            raise WrongArguments(
                f"{what} must have one type, but {sql_name(common)} and {sql_name(type_)} have no common type; "
                "cast one of them",
                position,
            )
        common = wider
    return common


def can_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether CAST is allowed in ANSI mode."""
    if given in (wanted, NULL) or wanted == STRING:
        return True
    if given == STRING:
        return is_atomic(wanted)
    if is_numeric(given):
        if wanted == INTERVAL:
            return is_integral(given) or is_decimal(given)
        return is_numeric(wanted) or wanted in (BOOLEAN, TIMESTAMP)
    if given == BOOLEAN:
        return is_numeric(wanted)
    if given == TIMESTAMP:
        return is_numeric(wanted) or wanted in _TIMES
    if given in (DATE, TIMESTAMP_NTZ):
        return wanted in _TIMES
    if given == INTERVAL:
        return is_integral(wanted) or is_decimal(wanted)
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return can_cast(given.key_type, wanted.key_type) and can_cast(given.item_type, wanted.item_type)
    if pa.types.is_list(given) and pa.types.is_list(wanted):
        return can_cast(given.value_type, wanted.value_type)
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        same = given.num_fields == wanted.num_fields
        return same and all(can_cast(a.type, b.type) for a, b in zip(given, wanted, strict=True))
    return False


def implicit(name: str, position: int, given: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """`wanted`, if an argument is implicitly cast to it; else WrongArguments."""
    fits = (
        given in (wanted, NULL)
        or (wanted == STRING and is_atomic(given))
        or (given == STRING and is_atomic(wanted))
        or (is_numeric(given) and is_numeric(wanted))
        or (given in _TIMES and wanted in _TIMES)
    )
    if not fits:
        raise WrongArguments(
            f"{name} takes {sql_name(wanted)} as its {ordinal(position)} argument, not {sql_name(given)}", position
        )
    return wanted


def ordinal(position: int) -> str:
    """
    >>> ordinal(0), ordinal(10)
    ('first', '11th')
    """
    words = ("first", "second", "third", "fourth", "fifth", "sixth")
    return words[position] if position < len(words) else f"{position + 1}th"

"""Which casts a kernel can do, which may fail, and which depend on the session time zone."""

from __future__ import annotations

import pyarrow as pa

from headgate.expressions.coercion import decimal_of, is_decimal, is_floating, is_nested
from headgate.expressions.signature import Literals, Types
from headgate.graph.types import (
    BINARY,
    BOOLEAN,
    DATE,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_integral,
    is_numeric,
)

_TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def native_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a kernel does it. Nested values as text, and binary and interval texts, are Catalyst's."""
    if given in (wanted, NULL):
        return True
    if is_nested(given):
        return is_nested(wanted) and _native_inside(given, wanted)
    if INTERVAL in (given, wanted):
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
        # A date or a timestamp always has a counterpart, but seconds since 1970 may not fit a small integer.
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

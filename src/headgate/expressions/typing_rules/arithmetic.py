"""Types of the arithmetic operators: numbers, decimals, dates and intervals."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from headgate.expressions.coercion import adjusted, common_numeric, decimal_of, is_decimal, is_floating, ordinal
from headgate.expressions.notation import INFIX
from headgate.expressions.signature import (
    Literals,
    Signature,
    Types,
    WrongArguments,
    count_arguments,
    function,
)
from headgate.graph.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    is_integral,
    is_numeric,
    sql_name,
)

_WIDEST = 76  # digits of the 256-bit decimals that kernels compute with


def _wrong(name: str, types: Types, hint: str = "cast one of them") -> WrongArguments:
    names = " and ".join(sql_name(t) for t in types)
    if any(t in (TIMESTAMP, TIMESTAMP_NTZ) for t in types) and name in ("add", "subtract"):
        hint = "a time is moved by an interval, as in ts + INTERVAL 5 SECONDS"
    return WrongArguments(f"{INFIX.get(name, name)} does not take {names}; {hint}")


def _operands(name: str, types: Types) -> Types:
    """Both sides numeric: strings take the type that the other side suggests, NULL the other side's type."""
    count_arguments(name, types, 2)
    first, second = types
    if first == NULL and second == NULL:
        return (DOUBLE, DOUBLE)
    if first in (NULL, STRING):
        first = second if first == NULL else _from_string(name, types, second)
    elif second in (NULL, STRING):
        second = first if second == NULL else _from_string(name, types, first)
    if not (is_numeric(first) and is_numeric(second)):
        raise _wrong(name, types)
    return (first, second)


def _from_string(name: str, types: Types, other: pa.DataType) -> pa.DataType:
    if is_integral(other):
        return BIGINT
    if is_numeric(other):
        return DOUBLE
    raise _wrong(name, types)


def _decimals(types: Types, literals: Literals) -> Types | None:
    """Both sides as decimals if that is how they are computed, else None."""
    if any(is_floating(t) for t in types) or not any(is_decimal(t) for t in types):
        return None
    return tuple(decimal_of(t, v) for t, v in zip(types, literals, strict=True))


def _overflows(args: Types, result: pa.DataType, literals: Literals) -> bool:
    """Integers overflow; decimals only where 38 digits may not be enough; times and intervals at the ends of time."""
    if is_floating(result) or result == DATE:
        return False
    if is_decimal(result) and len(args) == 2:
        return bool(result.precision == 38)
    return True


def _divides_by_zero(args: Types, result: pa.DataType, literals: Literals) -> bool:
    divisor = literals[1] if len(literals) == 2 else None
    if divisor is None or divisor == 0:
        return True
    if is_integral(result):
        return bool(divisor == -1)
    return not is_floating(result) and _overflows(args, result, literals)


def _remainder_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    divisor = literals[1] if len(literals) == 2 else None
    return divisor is None or divisor == 0


def _plus(name: str, types: Types, literals: Literals) -> Signature:
    """Shared by add and subtract."""
    count_arguments(name, types, 2)
    first, second = types
    if INTERVAL in types:
        other = first if second == INTERVAL else second
        if other in (INTERVAL, NULL):
            return Signature(name, (INTERVAL, INTERVAL), INTERVAL)
        if name == "subtract" and second != INTERVAL:
            raise _wrong(name, types, "an interval is subtracted from a time, not a time from an interval")
        # A date becomes a timestamp; only INTERVAL n DAY leaves it a date, which the binder sees to.
        if other in (DATE, STRING):
            other = TIMESTAMP
        if other not in (TIMESTAMP, TIMESTAMP_NTZ):
            raise _wrong(name, types, "an interval is added to a DATE, a TIMESTAMP or another interval")
        args = tuple(INTERVAL if t == INTERVAL else other for t in types)
        return Signature(name, args, other, zoned=other == TIMESTAMP)
    if name == "subtract" and (DATE in types or TIMESTAMP in types or TIMESTAMP_NTZ in types):
        return _between_times(name, types)
    if DATE in types:
        other = second if first == DATE else first
        if other in (INT, SMALLINT, TINYINT, NULL):
            args = tuple(DATE if t == DATE else INT for t in types)
            return Signature(name, args, DATE)
        raise _wrong(name, types, "add a number of days (INT) or an interval")
    return _of_numbers(name, types, literals, _decimal_sum)


def _of_numbers(
    name: str, types: Types, literals: Literals, result: Callable[[pa.DataType, pa.DataType], pa.DataType]
) -> Signature:
    """Arithmetic of numbers: in their common type, or between decimals, where `result` gives the type."""
    args = _operands(name, types)
    decimals = _decimals(args, literals)
    if decimals is None:
        common = common_numeric(*args)
        return Signature(name, (common, common), common)
    return Signature(name, decimals, result(*decimals))


def _decimal_sum(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(a.scale, b.scale)
    return adjusted(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def _decimal_product(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    return adjusted(a.precision + b.precision + 1, a.scale + b.scale)


def _decimal_rest(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(a.scale, b.scale)
    return adjusted(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def _between_times(name: str, types: Types) -> Signature:
    first, second = types
    times = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
    if first == DATE and second in (INT, SMALLINT, TINYINT):
        return Signature(name, (DATE, INT), DATE)
    if first in (DATE, NULL) and second in (DATE, NULL):
        return Signature(name, (DATE, DATE), INTERVAL)
    sides = tuple(t for t in types if t not in (NULL, STRING))
    if not all(t in times for t in sides):
        raise _wrong(name, types, "times are subtracted from times")
    common = TIMESTAMP if TIMESTAMP in types else TIMESTAMP_NTZ if TIMESTAMP_NTZ in types else DATE
    return Signature(name, (common, common), INTERVAL, zoned=common == TIMESTAMP)


function("add", fails=_overflows)(_plus)
function("subtract", fails=_overflows)(_plus)


@function("multiply", fails=_overflows)
def _multiply(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if INTERVAL in types:
        return _scaled_interval(name, types)
    return _of_numbers(name, types, literals, _decimal_product)


def _scaled_interval(name: str, types: Types) -> Signature:
    position = types.index(INTERVAL)
    other = types[1 - position]
    if not is_numeric(other) and other != NULL:
        raise _wrong(name, types, f"the {ordinal(1 - position)} operand must be a number")
    number = BIGINT if is_integral(other) or other == NULL else DOUBLE
    args = tuple(INTERVAL if i == position else number for i in (0, 1))
    # Spark rounds interval * decimal in decimals; a double would differ in the last microsecond.
    return Signature(name, args, INTERVAL, native=not is_decimal(other))


@function("divide", fails=_divides_by_zero)
def _divide(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if types[0] == INTERVAL:
        return _scaled_interval(name, types)
    args = _operands(name, types)
    decimals = _decimals(args, literals)
    if decimals is None:
        return Signature(name, (DOUBLE, DOUBLE), DOUBLE)
    a, b = decimals
    whole = a.precision - a.scale + b.scale
    scale = max(6, a.scale + b.precision + 1)
    result = adjusted(whole + scale, scale)
    native = max(whole + result.scale, a.precision, b.precision + b.scale - a.scale) + 1 <= _WIDEST
    return Signature(name, decimals, result, native)


@function("div", fails=_divides_by_zero)
def _div(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if types[0] == INTERVAL and types[1] in (INTERVAL, NULL):
        return Signature(name, (INTERVAL, INTERVAL), BIGINT)
    args = _operands(name, types)
    if any(is_floating(t) for t in args):
        raise _wrong(name, types, "div takes integers and decimals; use / or cast to BIGINT")
    decimals = _decimals(args, literals)
    if decimals is None:
        return Signature(name, (BIGINT, BIGINT), BIGINT)
    return Signature(name, decimals, BIGINT)


def _mod(name: str, types: Types, literals: Literals) -> Signature:
    return _of_numbers(name, types, literals, _decimal_rest)


function("mod", fails=_remainder_fails)(_mod)
function("pmod", fails=_remainder_fails)(_mod)


def _signed(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    (type_,) = types
    if type_ in (STRING, NULL):
        type_ = DOUBLE
    if not (is_numeric(type_) or type_ == INTERVAL):
        raise _wrong(name, types, "it takes a number or an interval")
    return Signature(name, (type_,), type_)


def _sign_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return is_integral(result) or result == INTERVAL


function("negative", fails=_sign_fails)(_signed)
function("positive")(_signed)
function("abs", fails=_sign_fails)(_signed)


def _bits(name: str, types: Types, literals: Literals) -> Signature:
    args = _operands(name, types)
    common = common_numeric(*args)
    if not is_integral(common):
        raise _wrong(name, types, "it takes integers")
    return Signature(name, (common, common), common)


for _name in ("bitand", "bitor", "bitxor"):
    function(_name)(_bits)


@function("bitnot")
def _bitnot(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if not is_integral(types[0]):
        raise _wrong(name, types, "it takes an integer")
    return Signature(name, types, types[0])


def _shift(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if not is_integral(types[0]) or not (is_integral(types[1]) or types[1] == NULL):
        raise _wrong(name, types, "it takes two integers")
    value = BIGINT if types[0] == BIGINT else INT
    return Signature(name, (value, INT), value)


for _name in ("shiftleft", "shiftright", "shiftrightunsigned"):
    function(_name)(_shift)

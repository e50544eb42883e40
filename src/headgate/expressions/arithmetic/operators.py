"""The arithmetic operators on numbers, decimals, dates and intervals."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.arithmetic import binary, decimals, intervals
from headgate.expressions.arithmetic.operands import decimal_operands, numeric_operands, wrong_operands
from headgate.expressions.coercion import adjusted, common_numeric, is_decimal, is_floating, ordinal
from headgate.expressions.errors import divide_by_zero, remainder_by_zero
from headgate.expressions.kernels import Kernel, arrow
from headgate.expressions.registry import function
from headgate.expressions.signature import Literals, Signature, Types, count_arguments
from headgate.graph.expressions import Call
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
)

_WIDEST = 76  # digits of the 256-bit decimals that kernels compute with
_TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def _overflows(args: Types, result: pa.DataType, literals: Literals) -> bool:
    """Integers, times and intervals may overflow; decimals only where 38 digits may not suffice."""
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


def _kind(call: Call) -> str:
    types = [a.type for a in call.args]
    if any(t in _TIMES for t in types):
        return "time"
    if INTERVAL in types:
        return "interval"
    if any(pa.types.is_decimal(t) for t in types):
        return "decimal"
    return "number"


def _sum_types(name: str, types: Types, literals: Literals) -> Signature:
    """Shared by add and subtract."""
    count_arguments(name, types, 2)
    first, second = types
    if INTERVAL in types:
        other = first if second == INTERVAL else second
        if other in (INTERVAL, NULL):
            return Signature(name, (INTERVAL, INTERVAL), INTERVAL)
        if name == "subtract" and second != INTERVAL:
            raise wrong_operands(name, types, "an interval is subtracted from a time, not a time from an interval")
        # A date becomes a timestamp; the SQL binder handles INTERVAL n DAY, which leaves it a date.
        if other in (DATE, STRING):
            other = TIMESTAMP
        if other not in (TIMESTAMP, TIMESTAMP_NTZ):
            raise wrong_operands(name, types, "an interval is added to a DATE, a TIMESTAMP or another interval")
        args = tuple(INTERVAL if t == INTERVAL else other for t in types)
        return Signature(name, args, other, zoned=other == TIMESTAMP)
    if name == "subtract" and (DATE in types or TIMESTAMP in types or TIMESTAMP_NTZ in types):
        return _between_times(name, types)
    if DATE in types:
        other = second if first == DATE else first
        if other in (INT, SMALLINT, TINYINT, NULL):
            args = tuple(DATE if t == DATE else INT for t in types)
            return Signature(name, args, DATE)
        raise wrong_operands(name, types, "add a number of days (INT) or an interval")
    return _of_numbers(name, types, literals, _decimal_sum)


def _of_numbers(
    name: str, types: Types, literals: Literals, result: Callable[[pa.DataType, pa.DataType], pa.DataType]
) -> Signature:
    """Arithmetic of numbers: in their common type, or between decimals, where `result` gives the type."""
    args = numeric_operands(name, types)
    decimals = decimal_operands(args, literals)
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
        raise wrong_operands(name, types, "times are subtracted from times")
    common = TIMESTAMP if TIMESTAMP in types else TIMESTAMP_NTZ if TIMESTAMP_NTZ in types else DATE
    return Signature(name, (common, common), INTERVAL, zoned=common == TIMESTAMP)


def _multiply_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if INTERVAL in types:
        return _scaled_interval(name, types)
    return _of_numbers(name, types, literals, _decimal_product)


def _scaled_interval(name: str, types: Types) -> Signature:
    position = types.index(INTERVAL)
    other = types[1 - position]
    if not is_numeric(other) and other != NULL:
        raise wrong_operands(name, types, f"the {ordinal(1 - position)} operand must be a number")
    number = BIGINT if is_integral(other) or other == NULL else DOUBLE
    args = tuple(INTERVAL if i == position else number for i in (0, 1))
    # Spark rounds interval * decimal in decimals; a double would differ in the last microsecond.
    return Signature(name, args, INTERVAL, native=not is_decimal(other))


@function("add", "subtract", types=_sum_types, fails=_overflows)
@function("multiply", types=_multiply_types, fails=_overflows)
def _plus_minus_times(call: Call) -> Kernel:
    kind = _kind(call)
    if kind == "time":
        return intervals.moved(call) if call.type != INTERVAL else intervals.between(call)
    if kind == "interval":
        return intervals.scaled(call) if call.name == "multiply" else binary.checked(call.name, INTERVAL)
    if kind == "decimal":
        maker = decimals.product if call.name == "multiply" else decimals.total
        return maker(call, decimals.strict)
    return binary.integers_or_floats(call)


def _divide_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if types[0] == INTERVAL:
        return _scaled_interval(name, types)
    args = numeric_operands(name, types)
    decimals = decimal_operands(args, literals)
    if decimals is None:
        return Signature(name, (DOUBLE, DOUBLE), DOUBLE)
    a, b = decimals
    whole = a.precision - a.scale + b.scale
    scale = max(6, a.scale + b.precision + 1)
    result = adjusted(whole + scale, scale)
    native = max(whole + result.scale, a.precision, b.precision + b.scale - a.scale) + 1 <= _WIDEST
    return Signature(name, decimals, result, native)


@function("divide", types=_divide_types, fails=_divides_by_zero)
def _divide(call: Call) -> Kernel:
    kind = _kind(call)
    if kind == "interval":
        return binary.guard_zero(call, intervals.scaled(call), divide_by_zero)
    if kind == "decimal":
        return binary.guard_zero(call, decimals.quotient(call, decimals.strict), divide_by_zero)
    return binary.divide_floats(call)


def _div_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if types[0] == INTERVAL and types[1] in (INTERVAL, NULL):
        return Signature(name, (INTERVAL, INTERVAL), BIGINT)
    args = numeric_operands(name, types)
    if any(is_floating(t) for t in args):
        raise wrong_operands(name, types, "div takes integers and decimals; use / or cast to BIGINT")
    decimals = decimal_operands(args, literals)
    if decimals is None:
        return Signature(name, (BIGINT, BIGINT), BIGINT)
    return Signature(name, decimals, BIGINT)


@function("div", types=_div_types, fails=_divides_by_zero)
def _div(call: Call) -> Kernel:
    if _kind(call) == "decimal":
        return binary.guard_zero(call, decimals.whole_quotient(call), divide_by_zero)
    if _kind(call) == "interval":
        return intervals.whole_quotient(call)
    return binary.divide_whole(call)


def _mod_types(name: str, types: Types, literals: Literals) -> Signature:
    return _of_numbers(name, types, literals, _decimal_rest)


@function("mod", types=_mod_types, fails=_remainder_fails)
def _mod(call: Call) -> Kernel:
    if _kind(call) == "decimal":
        return binary.guard_zero(call, decimals.remainder(call), remainder_by_zero)
    return binary.remainder(call)


@function("pmod", types=_mod_types, fails=_remainder_fails)
def _pmod(call: Call) -> Kernel:
    if _kind(call) == "decimal":
        return binary.guard_zero(call, decimals.remainder(call), remainder_by_zero)
    return binary.positive_remainder(call)


def _sign_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    (type_,) = types
    if type_ in (STRING, NULL):
        type_ = DOUBLE
    if not (is_numeric(type_) or type_ == INTERVAL):
        raise wrong_operands(name, types, "it takes a number or an interval")
    return Signature(name, (type_,), type_)


def _sign_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return is_integral(result) or result == INTERVAL


@function("negative", "abs", types=_sign_types, fails=_sign_fails)
def _sign(call: Call) -> Kernel:
    name = "negate" if call.name == "negative" else "abs"
    if is_integral(call.type) or call.type == INTERVAL:
        return binary.checked(name, call.type)
    if call.name == "negative" and pa.types.is_floating(call.type):
        # As in Java, -x of 0.0 is -0.0; a subtraction from zero would give 0.0.
        return lambda a: pc.multiply(a, pa.scalar(-1.0, call.type))
    return arrow(name)


@function("positive", types=_sign_types)
def _positive(call: Call) -> Kernel:
    return lambda a: a

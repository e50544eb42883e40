"""Mathematical functions on DOUBLE: NULL where Spark gives NULL instead of NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.arithmetic.decimals import labelled, narrowed, unscaled
from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.coercion import bounded, implicit, is_decimal, is_floating
from headgate.expressions.errors import overflow
from headgate.expressions.kernels import Kernel, Value, arrays, arrow
from headgate.expressions.registry import function, typed
from headgate.expressions.rules import takes
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments
from headgate.graph.expressions import Call
from headgate.graph.types import BIGINT, DOUBLE, INT, INTERVAL, is_integral

_ONE_DOUBLE = takes((DOUBLE,), DOUBLE)
_TWO_DOUBLES = takes((DOUBLE, DOUBLE), DOUBLE)
_ARROW = (
    "sqrt",
    "exp",
    "expm1",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
)
_NUMPY: dict[str, Callable[[Numbers], Numbers]] = {
    "cbrt": np.cbrt,
    "degrees": np.degrees,
    "radians": np.radians,
    "rint": np.rint,
    "sign": np.sign,
    "cot": lambda x: 1 / np.tan(x),
    "sec": lambda x: 1 / np.cos(x),
    "csc": lambda x: 1 / np.sin(x),
}
# At and below these, logarithms are NULL.
_LOGARITHMS = {"ln": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0}


@function(*_ARROW, types=_ONE_DOUBLE)
@function("hypot", types=_TWO_DOUBLES)
def _arrow_function(call: Call) -> Kernel:
    return arrow(call.name)


@function("atan2", types=_TWO_DOUBLES)
def _atan2(call: Call) -> Kernel:
    """Spark treats -0.0 as 0.0 here."""
    run, zero = arrow("atan2"), pa.scalar(0.0)
    return lambda a, b: run(pc.add(a, zero), pc.add(b, zero))


def _sign_types(name: str, types: Types, literals: Literals) -> Signature:
    return Signature(name, types, DOUBLE) if types == (INTERVAL,) else _ONE_DOUBLE(name, types, literals)


@function("sign", types=_sign_types, aliases={"signum": "sign"})
@function(*(_NUMPY.keys() - {"sign"}), types=_ONE_DOUBLE)
def _numpy_function(call: Call) -> Kernel:
    function = _NUMPY[call.name]

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        with np.errstate(all="ignore"):
            return rebuilt(function(numbers(array)), DOUBLE, nulls(array))

    return run


@function(*_LOGARITHMS, types=_ONE_DOUBLE)
def _logarithm(call: Call) -> Kernel:
    floor, nothing = pa.scalar(_LOGARITHMS[call.name]), pa.scalar(None, DOUBLE)
    run = arrow(call.name)
    return lambda value: pc.if_else(pc.less_equal(value, floor), nothing, run(value))


def _log_types(name: str, types: Types, literals: Literals) -> Signature:
    """log(x) is the natural logarithm; log(base, x) has its own kernel."""
    found = takes((DOUBLE, DOUBLE), DOUBLE, 1)(name, types, literals)
    return Signature("ln", found.args, DOUBLE) if len(types) == 1 else found


@function("log", types=_log_types)
def _log(call: Call) -> Kernel:
    """log(base, x)."""

    def run(base: Value, value: Value) -> Value:
        b, x = arrays(base, value)
        missing = nulls(b, x)
        with np.errstate(all="ignore"):
            outside = (numbers(b) <= 0) | (numbers(x) <= 0)
            result = np.log(numbers(x)) / np.log(numbers(b))
        return rebuilt(result, DOUBLE, outside if missing is None else outside | missing)

    return run


@function("pow", types=_TWO_DOUBLES, aliases={"power": "pow"})
def _pow(call: Call) -> Kernel:
    """Java's pow: NaN for 1 to the power of NaN or infinity, where C returns 1."""

    def run(a: Value, b: Value) -> Value:
        x, y = arrays(a, b)
        base, exponent = numbers(x), numbers(y)
        with np.errstate(all="ignore"):
            result = np.power(base, exponent)
            odd = (np.abs(base) == 1) & ~np.isfinite(exponent)
        return rebuilt(np.where(odd, np.nan, result), DOUBLE, nulls(x, y))

    return run


@function("pi", "e", types=takes((), DOUBLE))
def _number(call: Call) -> Kernel:
    value = pa.scalar(math.pi if call.name == "pi" else math.e)
    return lambda: value


typed("factorial", types=takes((INT,), BIGINT))


def _whole_types(name: str, types: Types, literals: Literals) -> Signature:
    """floor and ceil give BIGINT, or a decimal of scale 0. With a scale argument Catalyst computes them."""
    count_arguments(name, types, 1, 2)
    (type_,) = types[:1]
    if len(types) == 2:
        places = literals[1]
        if not isinstance(places, int):
            raise WrongArguments(f"the scale of {name} must be a literal", 1)
        if is_integral(type_):
            type_ = {pa.int8(): pa.decimal128(3, 0), pa.int16(): pa.decimal128(5, 0), INT: pa.decimal128(10, 0)}.get(
                type_, pa.decimal128(20, 0)
            )
        elif not is_decimal(type_):
            type_ = pa.decimal128(30, 15)
        whole = type_.precision - type_.scale + 1
        scale = min(type_.scale, max(places, 0))
        precision = max(whole, -places + 1) if places < 0 else whole + scale
        return Signature(name, types, bounded(precision, scale), native=False)
    if is_decimal(type_):
        return Signature(name, types, bounded(type_.precision - type_.scale + 1, 0))
    if is_integral(type_):
        return Signature(name, (BIGINT,), BIGINT)
    return Signature(name, (implicit(name, 0, type_, DOUBLE),), BIGINT)


def _whole_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return is_floating(args[0])


@function("floor", "ceil", types=_whole_types, fails=_whole_fails, aliases={"ceiling": "ceil"})
def _whole(call: Call) -> Kernel:
    given = call.args[0].type
    if given == BIGINT:
        return lambda value: value
    round_it = arrow(call.name)
    if pa.types.is_decimal(given):
        return lambda value: _decimal_whole(arrays(value)[0], round_it, call.type)

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        values, missing = numbers(round_it(array)), nulls(array)
        with np.errstate(invalid="ignore"):
            # NaN becomes 0, as in Java.
            outside = (values > 2.0**63) | (values < -(2.0**63))
            if (outside if missing is None else outside & ~missing).any():
                raise overflow("overflow")
            edge = values == 2.0**63
            whole = np.where(edge | outside | np.isnan(values), 0, values).astype(np.int64)
        return rebuilt(np.where(edge, np.iinfo(np.int64).max, whole), BIGINT, missing)

    return run


def _decimal_whole(array: pa.Array, round_it: Kernel, type_: pa.DataType) -> pa.Array:
    """In 256 bits, since rounding may need one digit more than the argument's type has."""
    scale = array.type.scale
    result, _ = narrowed(
        pc.cast(round_it(labelled(unscaled(array), 76, scale)), pa.decimal256(76, 0), safe=False), type_
    )
    return result

"""Mathematical functions on DOUBLE: NULL where Spark gives NULL instead of NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.errors import overflow
from headgate.expressions.kernels.decimals import labelled, narrowed, unscaled
from headgate.expressions.registry import Kernel, Value, arrays, arrow, kernel
from headgate.graph.expressions import Call
from headgate.graph.types import BIGINT, DOUBLE

_ARROW: tuple[str, ...] = (
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
)
_ARROW += ("acosh", "atanh", "hypot")
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
# Below these, logarithms are NULL.
_LOGARITHMS = {"ln": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0}


@kernel(*_ARROW)
def _arrow_function(call: Call) -> Kernel:
    return arrow(call.name)


@kernel("atan2")
def _atan2(call: Call) -> Kernel:
    """Without negative zeros, which Spark takes for zeros here."""
    run, zero = arrow("atan2"), pa.scalar(0.0)
    return lambda a, b: run(pc.add(a, zero), pc.add(b, zero))


@kernel(*_NUMPY)
def _numpy_function(call: Call) -> Kernel:
    function = _NUMPY[call.name]

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        with np.errstate(all="ignore"):
            return rebuilt(function(numbers(array)), DOUBLE, nulls(array))

    return run


@kernel(*_LOGARITHMS)
def _logarithm(call: Call) -> Kernel:
    floor, nothing = pa.scalar(_LOGARITHMS[call.name]), pa.scalar(None, DOUBLE)
    run = arrow(call.name)
    return lambda value: pc.if_else(pc.less_equal(value, floor), nothing, run(value))


@kernel("log")
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


@kernel("pow")
def _pow(call: Call) -> Kernel:
    """Java's pow: NaN for 1 to the power of NaN or infinity, where C has 1."""

    def run(a: Value, b: Value) -> Value:
        x, y = arrays(a, b)
        base, exponent = numbers(x), numbers(y)
        with np.errstate(all="ignore"):
            result = np.power(base, exponent)
            odd = (np.abs(base) == 1) & ~np.isfinite(exponent)
        return rebuilt(np.where(odd, np.nan, result), DOUBLE, nulls(x, y))

    return run


@kernel("pi", "e")
def _number(call: Call) -> Kernel:
    value = pa.scalar(math.pi if call.name == "pi" else math.e)
    return lambda: value


_FACTORIALS = np.array([math.factorial(n) for n in range(21)], np.int64)


@kernel("factorial")
def _factorial(call: Call) -> Kernel:
    """NULL outside of 0 to 20."""

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        n, missing = numbers(array), nulls(array)
        outside = (n < 0) | (n > 20)
        return rebuilt(_FACTORIALS[np.clip(n, 0, 20)], BIGINT, outside if missing is None else outside | missing)

    return run


@kernel("floor", "ceil")
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
            # NaN becomes 0, as Java converts it.
            outside = (values > 2.0**63) | (values < -(2.0**63))
            if (outside if missing is None else outside & ~missing).any():
                raise overflow("overflow")
            edge = values == 2.0**63
            whole = np.where(edge | outside | np.isnan(values), 0, values).astype(np.int64)
        return rebuilt(np.where(edge, np.iinfo(np.int64).max, whole), BIGINT, missing)

    return run


def _decimal_whole(array: pa.Array, round_it: Kernel, type_: pa.DataType) -> pa.Array:
    """In 256 bits, since rounding may take one digit more than the type of the argument has."""
    scale = array.type.scale
    result, _ = narrowed(
        pc.cast(round_it(labelled(unscaled(array), 76, scale)), pa.decimal256(76, 0), safe=False), type_
    )
    return result

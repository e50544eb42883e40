"""The arithmetic operators by the types they are called with, and their forgiving `try_` forms."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.errors import divide_by_zero, remainder_by_zero
from headgate.expressions.kernels import arithmetic, decimals, intervals
from headgate.expressions.registry import Kernel, arrow, kernel
from headgate.graph.expressions import Call
from headgate.graph.types import DATE, INTERVAL, TIMESTAMP, TIMESTAMP_NTZ, is_integral

_TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def _kind(call: Call) -> str:
    types = [a.type for a in call.args]
    if any(t in _TIMES for t in types):
        return "time"
    if INTERVAL in types:
        return "interval"
    if any(pa.types.is_decimal(t) for t in types):
        return "decimal"
    return "number"


@kernel("add", "subtract", "multiply")
def _plus_minus_times(call: Call) -> Kernel:
    kind = _kind(call)
    if kind == "time":
        return intervals.moved(call) if call.type != INTERVAL else intervals.between(call)
    if kind == "interval":
        return intervals.scaled(call) if call.name == "multiply" else arithmetic.checked(call.name, INTERVAL)
    if kind == "decimal":
        maker = decimals.product if call.name == "multiply" else decimals.total
        return maker(call, decimals.strict)
    return arithmetic.integers_or_floats(call)


@kernel("divide")
def _divide(call: Call) -> Kernel:
    kind = _kind(call)
    if kind == "interval":
        return arithmetic.guard_zero(call, intervals.scaled(call), divide_by_zero)
    if kind == "decimal":
        return arithmetic.guard_zero(call, decimals.quotient(call, decimals.strict), divide_by_zero)
    return arithmetic.divide_floats(call)


@kernel("div")
def _div(call: Call) -> Kernel:
    if _kind(call) == "decimal":
        return arithmetic.guard_zero(call, decimals.whole_quotient(call), divide_by_zero)
    if _kind(call) == "interval":
        return intervals.whole_quotient(call)
    return arithmetic.divide_whole(call)


@kernel("mod")
def _mod(call: Call) -> Kernel:
    if _kind(call) == "decimal":
        return arithmetic.guard_zero(call, decimals.remainder(call), remainder_by_zero)
    return arithmetic.remainder(call)


@kernel("pmod")
def _pmod(call: Call) -> Kernel:
    if _kind(call) == "decimal":
        return arithmetic.guard_zero(call, decimals.remainder(call), remainder_by_zero)
    return arithmetic.positive_remainder(call)


@kernel("negative", "abs")
def _sign(call: Call) -> Kernel:
    name = "negate" if call.name == "negative" else "abs"
    if is_integral(call.type) or call.type == INTERVAL:
        return arithmetic.checked(name, call.type)
    if call.name == "negative" and pa.types.is_floating(call.type):
        # Java's -x of 0.0 is -0.0, which a subtraction from zero would lose.
        return lambda a: pc.multiply(a, pa.scalar(-1.0, call.type))
    return arrow(name)


@kernel("positive")
def _positive(call: Call) -> Kernel:
    return lambda a: a

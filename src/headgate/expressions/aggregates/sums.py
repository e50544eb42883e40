"""sum and avg, exact where Spark is exact: integers and decimals overflow with an error, never silently."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.aggregates.grouping import Groups, Reduction, Rounds, count, total
from headgate.expressions.aggregates.registry import aggregate
from headgate.expressions.aggregates.signature import AggregateSignature
from headgate.expressions.coercion import bounded, is_decimal
from headgate.expressions.errors import EvaluationError, overflow
from headgate.expressions.signature import Types, WrongArguments, count_arguments
from headgate.graph.expressions import Expr
from headgate.graph.operators import AggregateCall
from headgate.graph.types import BIGINT, DOUBLE, INTERVAL, NULL, STRING, is_integral, is_numeric, sql_name

_LOW = 2**32 - 1


def _summed(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 1)
    (type_,) = types
    if type_ in (STRING, NULL):
        return AggregateSignature(name, (DOUBLE,), DOUBLE)
    if is_integral(type_):
        return AggregateSignature(name, types, BIGINT)
    if is_decimal(type_):
        return AggregateSignature(name, types, bounded(type_.precision + 10, type_.scale))
    if type_ == INTERVAL:
        return AggregateSignature(name, types, INTERVAL)
    _numeric(name, type_)
    return AggregateSignature(name, (DOUBLE,), DOUBLE)


def _averaged(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 1)
    (type_,) = types
    if is_decimal(type_):
        return AggregateSignature(name, types, bounded(type_.precision + 4, type_.scale + 4))
    if type_ == INTERVAL:
        return AggregateSignature(name, types, INTERVAL)
    if type_ not in (STRING, NULL):
        _numeric(name, type_)
    return AggregateSignature(name, types if is_integral(type_) else (DOUBLE,), DOUBLE)


def _numeric(name: str, type_: pa.DataType) -> None:
    if not is_numeric(type_):
        raise WrongArguments(f"{name} takes numbers, not {sql_name(type_)}", 0)


@aggregate("sum", types=_summed)
def _sum(call: AggregateCall, args: tuple[Expr, ...]) -> FloatSum | DecimalSum | IntegerSum:
    return _sum_of(args, call.type)


@aggregate("avg", types=_averaged, aliases={"mean": "avg"})
def _avg(call: AggregateCall, args: tuple[Expr, ...]) -> Average:
    given = args[0].type
    total_type = pa.decimal256(76, given.scale) if pa.types.is_decimal(given) else call.type
    return Average(_sum_of(args, total_type), call.type)


def _sum_of(args: tuple[Expr, ...], result: pa.DataType) -> FloatSum | DecimalSum | IntegerSum:
    given = args[0].type
    if pa.types.is_decimal(given):
        return DecimalSum(args, result)
    if pa.types.is_floating(given) or pa.types.is_floating(result):
        return FloatSum(args, result)
    return IntegerSum(args, result)


class IntegerSum:
    """The sum of integers (or intervals, in microseconds) as two halves of 32 bits, which cannot overflow."""

    needs_ids = False
    needs_order = False
    types: tuple[pa.DataType, ...] = (pa.int64(), pa.int64())

    def __init__(self, inputs: tuple[Expr, ...], result: pa.DataType) -> None:
        self.inputs = inputs
        self._result = result

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        values = inputs[0].cast(pa.int64())
        if _cannot_overflow(values):
            (sums,) = yield [total(values)]
            return [pc.shift_right(sums, 32), pc.bit_wise_and(sums, _LOW)]
        high, low = yield [total(pc.shift_right(values, 32)), total(pc.bit_wise_and(values, _LOW))]
        return _carried(high, low)

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        high, low = yield [total(state[0]), total(state[1])]
        return _carried(high, low)

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        high, low = state[0], state[1]
        fits = pc.and_(pc.greater_equal(high, -(2**31)), pc.less(high, 2**31))
        if pc.any(pc.invert(fits)).as_py():
            raise overflow("long overflow", "try_sum")
        return pc.bit_wise_or(pc.shift_left(high, 32), low).cast(self._result)


def _cannot_overflow(values: pa.Array) -> bool:
    ends = pc.min_max(values).as_py()
    if ends["min"] is None:
        return True
    return bool(max(-ends["min"], ends["max"]) * len(values) < 2**63)


def _carried(high: pa.Array, low: pa.Array) -> list[pa.Array]:
    return [pc.add(high, pc.shift_right(low, 32)), pc.bit_wise_and(low, _LOW)]


class FloatSum:
    """The sum of floating-point numbers."""

    needs_ids = False
    needs_order = False
    types: tuple[pa.DataType, ...] = (pa.float64(),)

    def __init__(self, inputs: tuple[Expr, ...], result: pa.DataType) -> None:
        self.inputs = inputs
        self._result = result

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield [total(inputs[0].cast(pa.float64(), safe=False))])

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield [total(state[0])])

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        return state[0].cast(self._result)


class DecimalSum:
    """The sum of decimals, in 256 bits where 128 might overflow."""

    needs_ids = False
    needs_order = False

    def __init__(self, inputs: tuple[Expr, ...], result: pa.DataType) -> None:
        self.inputs = inputs
        self._result = result
        given = inputs[0].type
        # 10**10 rows of 28 digits still fit into 38.
        wide = pa.decimal128(38, given.scale) if given.precision <= 28 else pa.decimal256(76, given.scale)
        self.types: tuple[pa.DataType, ...] = (wide,)

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield [total(inputs[0].cast(self.types[0]))])

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield [total(state[0])])

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        try:
            return state[0].cast(self._result)
        except pa.ArrowInvalid as error:
            raise _too_large(self._result) from error


class Average:
    """A sum and a count. `inner` is the sum; the mean of integers is taken in floating point, as Spark does."""

    needs_ids = False
    needs_order = False

    def __init__(self, inner: FloatSum | DecimalSum | IntegerSum, result: pa.DataType) -> None:
        self.inputs = inner.inputs
        self._inner = inner
        self._result = result
        self.types = (*inner.types, pa.int64())

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield from self._both(self._inner.partial(inputs, groups), count(inputs[0])))

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield from self._both(self._inner.merge(state[:-1], groups), total(state[-1])))

    @staticmethod
    def _both(sums: Rounds, counted: Reduction) -> Rounds:
        asked = next(sums)
        *answers, counts = yield [*asked, counted]
        try:
            sums.send(answers)
        except StopIteration as end:
            return [*end.value, counts]
        raise AssertionError("a sum takes one round")

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        counts = state[-1]
        if isinstance(self._inner, FloatSum):
            return pc.divide(state[0], counts.cast(pa.float64(), safe=False)).cast(self._result)
        sums = self._inner.result(state[:-1])
        if isinstance(self._inner, IntegerSum):
            return _half_up(sums.cast(pa.int64()), counts).cast(self._result)
        return _decimal_mean(sums, counts, self._result)


def _half_up(sums: pa.Array, counts: pa.Array) -> pa.Array:
    """Integer means, halves away from zero; null where there is nothing to average."""
    values = pc.fill_null(sums, 0).to_numpy()
    n = np.maximum(counts.to_numpy(), 1)
    quotient, rest = np.abs(values) // n, np.abs(values) % n
    means = np.sign(values) * (quotient + (rest >= n - rest))
    return pa.array(means, mask=counts.to_numpy() == 0)


def _decimal_mean(sums: pa.Array, counts: pa.Array, result: pa.DataType) -> pa.Array:
    """One division per group, in Python's decimals: Arrow's decimal division would round down."""
    unit = Decimal(1).scaleb(-result.scale)
    with localcontext() as context:
        context.prec = 80
        means = [
            None if value is None else (value / n).quantize(unit, rounding=ROUND_HALF_UP)
            for value, n in zip(sums.to_pylist(), counts.to_pylist(), strict=True)
        ]
    try:
        return pa.array(means, result)
    except pa.ArrowInvalid as error:
        raise _too_large(result) from error


def _too_large(type_: pa.DataType) -> EvaluationError:
    return EvaluationError(
        "NUMERIC_VALUE_OUT_OF_RANGE", f"The sum cannot be represented as {sql_name(type_)}. Cast to a smaller scale."
    )

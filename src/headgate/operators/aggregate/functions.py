"""The accumulator of each aggregate function."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.operators import AggregateCall
from headgate.graph.types import BOOLEAN
from headgate.operators.aggregate.accumulator import Accumulator
from headgate.operators.aggregate.counts import Count, CountIf
from headgate.operators.aggregate.extremes import AtEnd, Extreme, ExtremeBy
from headgate.operators.aggregate.moments import CoMoments, Moments
from headgate.operators.aggregate.sets import ApproximateCount, DistinctValues
from headgate.operators.aggregate.sums import Average, DecimalSum, FloatSum, IntegerSum

_EXTREMES = {"min": "min", "max": "max", "bool_and": "min", "bool_or": "max"}
_AT_END = {"first": "min", "last": "max", "any_value": "min"}
_MOMENTS = {"stddev_samp", "stddev_pop", "var_samp", "var_pop", "skewness", "kurtosis"}
_COMOMENTS = {"corr", "covar_samp", "covar_pop"}


def accumulator(call: AggregateCall) -> Accumulator:
    """The state of an aggregate call. Raises ValueError for a function that has none."""
    plain = _plain(call)
    return DistinctValues(plain) if call.distinct and plain.inputs else plain


def _plain(call: AggregateCall) -> Accumulator:
    name, args = call.name, _filtered(call)
    if name == "count":
        return Count(args)
    if name == "count_if":
        return CountIf(args)
    if name == "sum":
        return _sum(args, call.type)
    if name == "avg":
        return Average(_mean_of(args, call.type), call.type)
    if name in _EXTREMES:
        # Acero has no order of structs: the extreme is that row's own value, found by its rank.
        nested = pa.types.is_struct(args[0].type)
        return ExtremeBy(args * 2, name) if nested else Extreme(args, _EXTREMES[name])
    if name in ("min_by", "max_by"):
        return ExtremeBy(args, name[:3])
    if name in _AT_END:
        return AtEnd(args, _AT_END[name], call.option == "ignore nulls")
    if name in _MOMENTS:
        return Moments(args, name)
    if name in _COMOMENTS:
        return CoMoments(args, name)
    if name == "approx_count_distinct":
        return ApproximateCount(args, float(call.option or 0.05))
    raise ValueError(f"there is no aggregate function {name}")


def _sum(args: tuple[Expr, ...], result: pa.DataType) -> FloatSum | DecimalSum | IntegerSum:
    given = args[0].type
    if pa.types.is_decimal(given):
        return DecimalSum(args, result)
    if pa.types.is_floating(given) or pa.types.is_floating(result):
        return FloatSum(args, result)
    return IntegerSum(args, result)


def _mean_of(args: tuple[Expr, ...], result: pa.DataType) -> FloatSum | DecimalSum | IntegerSum:
    given = args[0].type
    if pa.types.is_decimal(given):
        return DecimalSum(args, pa.decimal256(76, given.scale))
    return _sum(args, result)


def _filtered(call: AggregateCall) -> tuple[Expr, ...]:
    """The inputs of a call with its FILTER clause: null where it is not true, and not computed there either."""
    if call.where is None:
        return call.args
    if call.name == "count" and not call.args:
        return (_where(call.where, Literal(BOOLEAN, True)),)
    if call.name in _AT_END:
        # Null is a value here, so another column says which rows count.
        return (_where(call.where, call.args[0]), _where(call.where, Literal(BOOLEAN, True)))
    return tuple(_where(call.where, arg) for arg in call.args)


def _where(condition: Expr, value: Expr) -> Call:
    return Call(value.type, "case", (condition, value, Literal(value.type, None)))


def unique(exprs: Sequence[Expr]) -> tuple[list[Expr], list[int]]:
    """Each different expression once, and the position of each given one among them."""
    places: dict[Expr, int] = {}
    return_at = [places.setdefault(e, len(places)) for e in exprs]
    return list(places), return_at

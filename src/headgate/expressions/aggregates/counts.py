"""count, count_if: how many rows, how many values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.aggregates.grouping import Groups, Reduction, Rounds, count, total
from headgate.expressions.aggregates.registry import aggregate
from headgate.expressions.aggregates.signature import AggregateSignature, conditions
from headgate.expressions.signature import Types
from headgate.graph.expressions import Expr
from headgate.graph.operators import AggregateCall
from headgate.graph.types import BIGINT


def _counted(name: str, types: Types) -> AggregateSignature:
    """count(*) has no arguments; count(a, b) counts the rows where neither is null."""
    return AggregateSignature(name, types, BIGINT)


@aggregate("count", types=_counted)
def _count(call: AggregateCall, args: tuple[Expr, ...]) -> Count:
    return Count(args)


@aggregate("count_if", types=conditions)
def _count_if(call: AggregateCall, args: tuple[Expr, ...]) -> CountIf:
    return CountIf(args)


class Count:
    """Rows (no input), or rows in which no input is null."""

    needs_ids = False
    needs_order = False
    types = (pa.int64(),)

    def __init__(self, inputs: tuple[Expr, ...]) -> None:
        self.inputs = inputs

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        if not inputs:
            counted = yield [Reduction(pa.nulls(0), "count_all")]
        elif len(inputs) == 1:
            counted = yield [count(inputs[0])]
        else:
            present = reduce(pc.and_, (pc.is_valid(values) for values in inputs))
            counted = yield [count(pc.if_else(present, True, pa.scalar(None, pa.bool_())))]
        return counted

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield [total(state[0])])

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        return state[0]


class CountIf(Count):
    """Rows for which a condition is true."""

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield [count(pc.if_else(inputs[0], True, pa.scalar(None, pa.bool_())))])

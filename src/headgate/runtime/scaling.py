"""Scales counts and sums of a query with load shedding up to an estimate for all rows (option `scaled`)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.expressions import Column
from headgate.graph.operators import Aggregate, Operator, Project

SCALED = frozenset(("count", "sum"))


def scaled_columns(plan: Operator) -> frozenset[int]:
    """The columns of a plan that are counts or sums over rows of streams; none if it is no plain aggregate.

    Distinct values are not proportional to rows, and the rows of a join not to those of one stream.
    """
    if isinstance(plan, Project):
        below = scaled_columns(plan.input)
        return frozenset(n for n, e in enumerate(plan.exprs) if isinstance(e, Column) and e.index in below)
    if not isinstance(plan, Aggregate) or any(len(node.inputs) > 1 for node in plan.walk()):
        return frozenset()
    if any(isinstance(node, Aggregate) for node in plan.input.walk()):
        return frozenset()
    timed = plan.window is not None and plan.window.kind != "rows"
    first = int(timed) + len(plan.keys)
    names = ((first + n, call) for n, call in enumerate(plan.calls))
    return frozenset(n for n, call in names if call.name in SCALED and not call.distinct)


def scaled(values: pa.Array, factor: float) -> pa.Array:
    """Values multiplied by a factor, in their own type; whole numbers are rounded."""
    found = pc.multiply(values.cast(pa.float64(), safe=False), factor)
    if pa.types.is_integer(values.type):
        found = pc.round(found)
    return found.cast(values.type, safe=False)

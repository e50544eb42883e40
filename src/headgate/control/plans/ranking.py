"""Ranks alternate plans by the processor time that each adds to what already runs in the shared graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headgate.control.operator_figures import OperatorFigures
from headgate.graph.operators import Operator, Source

UNKNOWN_RATE = 1.0
"""Rows per second of streams of which nothing is measured: plans over the same stream can still be compared."""


def added_cores(
    plan: Operator, running: Collection[Operator], figures: OperatorFigures, rates: Mapping[str, float]
) -> float:
    """Processor seconds per second of the operators of a plan that do not run already.

    `running` are the operators of the other queries: what is shared with them costs nothing more. `rates` are rows per
    second of streams.
    """
    total = 0.0
    made: dict[Operator, float] = {}
    for node in plan.walk():
        if isinstance(node, Source):
            made[node] = rates.get(node.stream) or UNKNOWN_RATE
            continue
        rows = sum(made[each] for each in node.inputs)
        expected = figures.expected(node)
        made[node] = rows * expected.selectivity
        if node not in running:
            total += rows * expected.cost
    return total

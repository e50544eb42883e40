"""Ranks alternate plans by the processor time that each adds to the running shared graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headgate.control.operator_figures import OperatorFigures
from headgate.graph.operators import Operator, Source

UNKNOWN_RATE = 1.0
"""Assumed rows per second of streams without measurements: plans over the same stream can still be compared."""


def added_cores(
    plan: Operator, running: Collection[Operator], figures: OperatorFigures, rates: Mapping[str, float]
) -> float:
    """Processor seconds per second of the operators of a plan that do not run yet.

    `running`: the operators of the other queries; an operator shared with them adds no cost. `rates`: rows per second
    of each stream.
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

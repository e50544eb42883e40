"""Statistics and a scheduler for a wiring: what a network starts from, or goes on from after a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.runtime.loop import Loop
from headgate.runtime.wiring import Wiring
from headgate.scheduling import Policy, Scheduler, Statistics, View

Figures = Sequence[float]
"""Cost, selectivity, bytes per row in and out, and arrival rate of an operator."""


def figures(loop: Loop) -> dict[str, list[float]]:
    """The statistics of each operator, by its key."""
    s = loop.view.statistics
    return {
        stage.key: [s.cost[i], s.selectivity[i], s.bytes_in[i], s.bytes_out[i], s.rate[i]]
        for i, stage in enumerate(loop.wiring.stages)
    }


def statistics_from(wiring: Wiring, known: Mapping[str, Figures], now: float) -> Statistics:
    """Statistics that go on from what was known of operators that stay."""
    statistics = Statistics(wiring.topology)
    # The clock's zero is long ago: time counts from now.
    statistics.update(now)
    for stage in wiring.stages:
        found = known.get(stage.key)
        if found is not None:
            cost, selectivity, bytes_in, bytes_out, rate = found
            statistics.expect(
                stage.id, cost=cost, selectivity=selectivity, bytes_in=bytes_in, bytes_out=bytes_out, rate=rate
            )
    return statistics


def scheduler_over(policy: Policy, view: View, wiring: Wiring, now: float) -> Scheduler:
    """A scheduler over queues that may hold rows already, also on edges that the policy wants direct."""
    for edge, queue in enumerate(wiring.queues):
        view.queues.rows[edge] = queue.waiting
        view.queues.oldest[edge] = queue.oldest
    return Scheduler(policy, view, now)

"""Measures the speed of scheduling decisions: `python -m headgate.simulation.speed [POLICY…]`.

The first table shows decisions per second of the whole simulator, with one row of one operator per decision (the
worst case). The second shows the time of a decision alone (arrivals and ends of grants are reported to the scheduler,
nothing runs) by the number of units.

Times are processor time, the best of several repeats. Since other load on the machine slows even that, a loop of heap
operations is timed as a reference, and the first table also gives the rate scaled to a processor that runs 4 million
turns of that loop per second.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from heapq import heappop, heappush
from random import Random
from time import process_time

from headgate.scheduling import Scheduler, Statistics, Topology, View, policy
from headgate.simulation.arrivals import Poisson
from headgate.simulation.kernel import simulate
from headgate.simulation.models import OperatorModel

POLICIES = (
    "rr:rows=1",
    "fifo:rows=1",
    "mtiq:rows=1",
    "hr:rows=1",
    "greedy:rows=1",
    "chain:rows=1",
    "cqc:inner=hr(rows=1)",
)
SIZES = (10, 100, 1_000, 10_000)
REFERENCE_TURNS = 4_000_000.0
DEPTH = 5
# Costs rise along the path, so that Chain joins no two operators into one segment and every unit is one operator.
COSTS = (1e-5, 1.1e-5, 1.2e-5, 1.3e-5, 15e-5)
SELECTIVITY = 0.9


def turns_per_second(turns: int = 100_000, repeats: int = 5) -> float:
    """Turns per second of the reference loop (push to and pop from a small heap), measured now."""
    best = 0.0
    for _ in range(repeats):
        heap: list[tuple[float, int]] = []
        begun = process_time()
        for turn in range(turns):
            heappush(heap, (turn * 0.5, turn))
            if turn & 7 == 7:
                while heap:
                    heappop(heap)
        best = max(best, turns / (process_time() - begun))
    return best


def graph(operators: int) -> Topology:
    """Queries of five operators in a path, in three classes."""
    inputs = {f"o{n}": [f"s{n // DEPTH}" if n % DEPTH == 0 else f"o{n - 1}"] for n in range(operators)}
    ends = range(DEPTH - 1, operators, DEPTH)
    queries = {f"q{n}": (f"o{n}", ("H", "C", "N")[n // DEPTH % 3]) for n in ends}
    return Topology.of(inputs, queries=queries, classes={"H": 6, "C": 3, "N": 1})


def decisions_per_second(text: str, *, operators: int = 50, rows: int = 2_000, repeats: int = 3) -> float:
    """Decisions per second of the simulator, with `rows` rows on each path."""
    topology = graph(operators)
    models = {name: OperatorModel(COSTS[n % DEPTH], SELECTIVITY) for n, name in enumerate(topology.operators)}
    # A load of 0.9.
    work = sum(c * SELECTIVITY**n for n, c in enumerate(COSTS)) * len(topology.streams)
    arrivals = {stream: Poisson(0.9 / work, rows=rows) for stream in topology.streams}
    best = 0.0
    for _ in range(repeats):
        begun = process_time()
        result = simulate(topology, models, arrivals, text)
        best = max(best, result.decisions / (process_time() - begun))
    return best


def seconds_per_decision(text: str, units: int, *, decisions: int = 10_000, repeats: int = 3) -> float:
    """Time per decision of the scheduler alone: a grant, its end, the row it passes on, and a new arrival."""
    topology = graph(units)
    view = known_view(topology)
    rows, oldest = view.queues.rows, view.queues.oldest
    random = Random(1)
    for edge in range(len(rows)):
        rows[edge], oldest[edge] = float(random.randrange(1, 10)), random.random()
    scheduler = Scheduler(policy(text), view)
    now, best = 1.0, float("inf")
    for _ in range(repeats):
        streams = [edge.id for edge in topology.edges if edge.producer is None]
        arrivals = random.choices(streams, k=decisions)
        begun = process_time()
        for entry in arrivals:
            grant = scheduler.next(now)
            if grant is None:
                continue
            unit = scheduler.units.units[grant.unit]
            taken = unit.entries[0]
            rows[taken] -= 1
            oldest[taken] = oldest[taken] + 0.001 if rows[taken] else float("inf")
            now += 0.001
            for edge in topology.outputs[unit.operators[-1]]:
                _add(scheduler, edge, now)
            _add(scheduler, entry, now)
            scheduler.finished(grant.unit, now, 0.001, 1, 1)
        best = min(best, (process_time() - begun) / decisions)
    return best


def _add(scheduler: Scheduler, edge: int, now: float) -> None:
    rows, oldest = scheduler.view.queues.rows, scheduler.view.queues.oldest
    empty = not rows[edge]
    rows[edge] += 1
    if empty:
        oldest[edge] = now
    scheduler.arrived(edge, empty)


def known_view(topology: Topology) -> View:
    """A view of the graph with known statistics: the costs above."""
    statistics = Statistics(topology)
    for operator in range(len(topology.operators)):
        statistics.expect(operator, cost=COSTS[operator % DEPTH], selectivity=SELECTIVITY, rate=1.0)
    return View.of(topology, statistics)


def main(policies: Sequence[str]) -> None:
    """Print both tables."""
    chosen = policies or POLICIES
    print(f"{'simulated':<24} {'decisions/s':>12} {'heap turns/s':>14} {'at 4 M turns/s':>15}")
    for text in chosen:
        turns = turns_per_second()
        found = decisions_per_second(text)
        turns = (turns + turns_per_second()) / 2
        print(f"{text:<24} {found:>12,.0f} {turns:>14,.0f} {found * REFERENCE_TURNS / turns:>15,.0f}")
    print(f"\n{'one decision (µs)':<24} " + " ".join(f"{size:>7,}" for size in SIZES) + "  growth (log n: ×4)")
    for text in chosen:
        times = [seconds_per_decision(text, size) for size in SIZES]
        print(f"{text:<24} " + " ".join(f"{t * 1e6:>7.2f}" for t in times) + f"  ×{times[-1] / times[0]:.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])

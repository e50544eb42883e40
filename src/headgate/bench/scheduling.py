"""Cost of scheduling: of a grant, as a share of the time at 1,000 operators, and of a decision by number of units."""

from __future__ import annotations

import time
from math import log
from statistics import median
from typing import Any

from headgate.bench.chains import CLASSES, DEPTH, QUERIES, chains, values
from headgate.bench.scheduling_share import WARM_UP, share
from headgate.graph.operators import Operator, Select
from headgate.operators.batch import Batch
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless
from headgate.outcome import Outcome, Series, at_most
from headgate.runtime import Network
from headgate.scheduling import Scheduler, Topology, View
from headgate.scheduling import policy as policy_of

QUEUED = ("hr", "cqc", "fifo", "rr")
"""Policies that queue every edge: a grant runs one operator."""
POLICIES = ("hr", "cqc", "chain", "fifo", "rr")
ROUNDS = 15
SIZES = (10, 100, 1000, 10_000)


def run() -> list[Outcome]:
    """All three benches, in processor time of this thread: other processes do not count."""
    return [_grant(), share(POLICIES), _growth()]


def _grant() -> Outcome:
    """A grant with operators that do nothing: queues, accounting and decisions remain."""
    times = {name: [_idle_grant(name) * 1e6 for _ in range(ROUNDS)] for name in QUEUED}
    cost = {name: min(rounds) for name, rounds in times.items()}
    return Outcome(
        name="scheduling-grant",
        source="cost of a grant",
        claim="a grant costs less than 20 µs: decision, queues, memory accounting, locks and statistics",
        paper={"slowest_us": 20.0},
        measured={
            "slowest_us": max(cost.values()),
            **{f"{name}_us": value for name, value in cost.items()},
            **{f"{name}_median_us": median(rounds) for name, rounds in times.items()},
        },
        rule=lambda goal, measured: measured["slowest_us"] < goal["slowest_us"],
        setup={
            "operators": QUERIES * DEPTH,
            "rounds": ROUNDS,
            "rows": 1,
            "operators_do": "nothing",
            "warm_up": WARM_UP,
        },
    )


def _growth() -> Outcome:
    """A decision of the scheduler alone by number of ready units."""
    series = []
    growth: dict[str, float] = {}
    for name in POLICIES:
        cost = [min(_decision(name, size) for _ in range(2)) * 1e6 for size in SIZES]
        growth[name] = cost[-1] / cost[0]
        series.append(Series(name, [float(size) for size in SIZES], cost))
    allowed = log(SIZES[-1]) / log(SIZES[0])
    return Outcome(
        name="scheduling-growth",
        source="goal: a decision costs O(log units)",
        claim="from 10 to 10,000 units the cost of a decision grows no faster than log n",
        paper={"largest_growth": allowed},
        measured={"largest_growth": max(growth.values()), **{f"{name}_growth": g for name, g in growth.items()}},
        rule=at_most,
        setup={"units": list(SIZES), "a decision": "next, finished, and the arrival of the next row"},
        series=series,
        axes=("units", "µs per decision"),
    )


class _PassThrough(Stateless):
    """An operator that passes its input on."""

    def process(self, port: int, batch: Batch) -> list[Batch]:
        return [batch]


def _idle_grant(policy: str) -> float:
    def make(node: Operator, settings: Settings) -> Any:
        return _PassThrough() if isinstance(node, Select) else live(node, settings)

    network = Network(chains(), policy, make=make)
    for _ in range(WARM_UP):
        network.push("s", values(1))
        network.run()
        for name in network.queries:
            network.take(name)
    # Without a watermark: an epoch has one, after all its rows.
    network.push("s", values(1), advance=False)
    began = time.thread_time()
    report = network.run()
    return (time.thread_time() - began) / report.grants


def _decision(policy: str, units: int) -> float:
    """Seconds for one round of next, finished and arrived, with all units ready."""
    topology = Topology.of(
        {f"o{n}": [f"s{n}"] for n in range(units)},
        queries={f"q{n}": (f"o{n}", CLASSES[n % 3].name) for n in range(units)},
        classes={cls.name: float(cls.priority) for cls in CLASSES},
    )
    view = View.of(topology)
    for edge in range(units):
        view.queues.rows[edge] = 10.0
        view.queues.oldest[edge] = float(edge)
    scheduler = Scheduler(policy_of(policy), view)
    count = 2000
    now = float(units)
    entries = [unit.entries[0] for unit in scheduler.units.units]
    began = time.thread_time()
    for _ in range(count):
        grant = scheduler.next(now)
        if grant is None:
            raise RuntimeError(f"{policy} grants nothing although {units} units are ready")
        now += 1e-3
        edge = entries[grant.unit]
        view.queues.rows[edge] = 0.0
        view.queues.oldest[edge] = float("inf")
        scheduler.finished(grant.unit, now, 1e-3, 10.0, 10.0)
        view.queues.rows[edge] = 10.0
        view.queues.oldest[edge] = now
        scheduler.arrived(edge, True)
    return (time.thread_time() - began) / count

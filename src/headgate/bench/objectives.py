"""Objectives change from 70/30 to 30/70 while a network runs: the measured metrics follow within ten intervals.

The network is the live one (queues, scheduler, grant loop, selection of policies), in this process and without Spark.
Its operators do no real work but advance its clock (`papers/live_network.py`), so that other load on the
machine does not count.

The objectives are delay and queue length, on which the policies differ in 002, too (Fig. 2): rows arrive in bursts, the
first operator drops 70% of them, and the second one takes four times as long. HR and FIFO finish the oldest rows first;
Chain shortens the queues first. Results per second are hardly such an objective: a network that keeps pace delivers the
same number under every policy; in the overloaded networks that were tried, HR has the most results and nearly the
lowest delay, so that it runs under both weightings.

With `--set live=true` the same load runs on Spark (`objectives_live.py`), under our learner alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

import numpy as np

from headgate.graph.operators import Operator
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.outcome import Figures, Mark, Outcome, Series
from headgate.papers.live_network import Clock, LiveModel, ModelledOperator, Processor, modelled_graph, padded
from headgate.runtime import Network
from headgate.scheduling import Topology
from headgate.simulation import OperatorModel

SEEDS = 5
INTERVAL = 4.0
"""Minimum time (s) for which AMoS runs a policy: several mean delays, and one burst."""
BEFORE, WITHIN, AFTER = 80, 10, 20
"""Number of intervals: before the change of objectives; after it, until the metrics must have followed; and after that,
to be compared with the same number of intervals directly before the change."""
TICK = 0.05
OBJECTIVES = ({"delay": 0.7, "queue": 0.3}, {"delay": 0.3, "queue": 0.7})
LEARNERS = {"objectives": "auto", "objectives-wheel": "auto:learner=wheel"}
"""By name of the outcome: our learner, and the roulette wheel of 002."""
ROW_BYTES = 100.0

TOPOLOGY = Topology.of({"narrow": ["readings"], "look_up": ["narrow"]}, queries={"found": "look_up"})
MODELS = {"narrow": OperatorModel(0.001, 0.3, ROW_BYTES), "look_up": OperatorModel(0.004, 1.0, ROW_BYTES)}
RATE, BURST = 150.0, 900.0
"""Rows per second, and those of a burst: the first second of each interval."""


@dataclass(frozen=True)
class Interval:
    """The metrics of an interval: mean delay of its results (s), and mean number of rows in queues."""

    delay: float
    queue: float


def run(seeds: int = SEEDS, live: bool = False) -> list[Outcome]:
    """Each learner in one process, or ours on Spark, with several seeds."""
    if live:
        from headgate.bench import objectives_live

        policy = LEARNERS["objectives"]
        runs = objectives_live.run_seeds(policy, seeds)
        found = outcome("objectives-live", policy, runs, objectives_live.BEFORE, "Spark; functions wait")
        return [kept_pace(found, runs, objectives_live.BEFORE)]
    runtime = "the live network in one process, without Spark; operators advance its clock"
    return [
        outcome(name, policy, [run_policy(policy, seed) for seed in range(1, seeds + 1)], BEFORE, runtime)
        for name, policy in LEARNERS.items()
    ]


def outcome(name: str, policy: str, runs: Sequence[list[Interval]], before: int, runtime: str) -> Outcome:
    """The verdict on several runs of a policy, one for each seed."""
    measured: dict[str, Any] = {}
    for metric in ("queue", "delay"):
        changes = [_change(each, metric, before) for each in runs]
        measured[f"{metric}_change"] = fmean(changes)
        measured[f"{metric}_change_spread"] = stdev(changes) if len(changes) > 1 else 0.0
        measured[f"{metric}_change_by_seed"] = changes
    measured["queue_change_most"] = max(measured["queue_change_by_seed"])
    return Outcome(
        name,
        "the same network before the change; 002 §4.3",
        "10 intervals after the objectives change from 70/30 to 30/70 (delay/queue) the queues are shorter, with every"
        " seed",
        {"queue_change_most": 0.0},
        measured,
        _rule,
        {
            "seeds": len(runs),
            "policy": policy,
            "interval_s": INTERVAL,
            "before": before,
            "within": WITHIN,
            "after": AFTER,
            "objectives": OBJECTIVES,
            "rates": {"usual": RATE, "burst": BURST},
            "operators": {name: str(model) for name, model in MODELS.items()},
            "runtime": runtime,
        },
        _series(runs),
        ("time (s)", ""),
        marks=[Mark(before * INTERVAL, "objectives 30/70")],
    )


def kept_pace(found: Outcome, runs: Sequence[list[Interval]], before: int) -> Outcome:
    """The verdict on runs in real time: it does not hold either if a machine was too busy for the load, so that the
    backlog of one burst met the next and grew or fell by itself."""
    delays = [fmean(each.delay for each in run[before - AFTER : before]) for run in runs]
    return replace(
        found,
        claim=f"{found.claim}; before the change the results of a burst came before the next one",
        paper={**found.paper, "delay_before_most_s": INTERVAL},
        measured={**found.measured, "delay_before_most_s": max(delays)},
    )


def _rule(goal: Figures, measured: Figures) -> bool:
    return all(measured[key] < goal[key] for key in goal)


def _change(intervals: list[Interval], metric: str, before: int) -> float:
    """The relative change of a metric, from before the change of objectives to after it."""
    earlier = [getattr(each, metric) for each in intervals[before - AFTER : before]]
    later = [getattr(each, metric) for each in intervals[before + WITHIN :]]
    return fmean(later) / fmean(earlier) - 1


def run_policy(policy: str, seed: int) -> list[Interval]:
    """One run of a policy: the metrics of each interval."""
    clock = Clock()
    processor = Processor(clock)
    _, graph = modelled_graph(TOPOLOGY)

    def make(node: Operator, settings: Settings) -> LiveOperator:
        if not isinstance(node, ModelledOperator):
            return live(node, settings)
        return LiveModel(MODELS[node.name], processor, ROW_BYTES)

    network = Network(
        graph, f"{policy}{',' if ':' in policy else ':'}interval={INTERVAL},seed={seed}", clock=clock, make=make
    )
    network.objectives = OBJECTIVES[0]
    random = np.random.default_rng(seed)
    processor.begin(clock())
    found: list[Interval] = []
    total = (0, 0.0, 0.0)
    for number in range(BEFORE + WITHIN + AFTER):
        if number == BEFORE:
            network.objectives = OBJECTIVES[1]
        for tick in range(round(INTERVAL / TICK)):
            rate = BURST if tick * TICK < 1.0 else RATE
            _until(network, processor, clock, number * INTERVAL + tick * TICK, rate, random)
        latencies = [outbox.latency for outbox in network.outboxes.values()]
        results, delay = sum(each.rows for each in latencies), sum(each.total for each in latencies)
        queued = network.metrics()["performance"]["queued_rows"]
        made = max(results - total[0], 1)
        found.append(Interval((delay - total[1]) / made, (queued - total[2]) / INTERVAL))
        total = (results, delay, queued)
    return found


def _until(
    network: Network, processor: Processor, clock: Clock, start: float, rate: float, random: np.random.Generator
) -> None:
    """Pushes the rows that arrived in the tick before, and runs grants until the tick ends."""
    count = int(random.poisson(rate * TICK))
    if count:
        # An operator does not begin with a batch before its last row has arrived.
        moments = start - np.sort(random.random(count))[::-1] * TICK
        rows = padded(moments, ROW_BYTES)
        network.push("readings", rows, processor.start + float(moments.mean()), advance=False)
    while clock() - processor.start < start + TICK:
        if not network.step():
            processor.wait(start + TICK)


def _series(runs: Sequence[list[Interval]]) -> list[Series]:
    """The means over all seeds."""
    times = [(number + 1) * INTERVAL for number in range(len(runs[0]))]
    panels = {"queue": "rows in queues", "delay": "mean delay of results (s)"}
    return [
        Series(metric, times, [fmean(getattr(each[n], metric) for each in runs) for n in range(len(times))], panel)
        for metric, panel in panels.items()
    ]

"""Objectives change from 70/30 to 30/70 while a network runs: the measured metrics follow within ten intervals.

The network is the live one (queues, scheduler, grant loop, selection of policies), in this process and without Spark.
Its operators do no real work but advance its clock (`papers/live_network.py`), so that other load on the
machine does not count.

Two queries of one class together need 170% of a processor. Rows of `fresh` are few and cheap. Rows of `bulk` give
twice as many results in the same time, but arrive faster than they can be processed, so their results are late. A
policy that lowers the mean delay of results therefore lowers their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
INTERVAL = 1.0
"""Minimum time (s) for which AMoS runs a policy."""
BEFORE, WITHIN, AFTER = 40, 10, 10
"""Number of intervals: before the change of objectives; after it, until the metrics must have followed; and after that,
to be compared with the same number of intervals directly before the change."""
TICK = 0.05
OBJECTIVES = ({"delay": 0.7, "output": 0.3}, {"delay": 0.3, "output": 0.7})
LEARNERS = {"wheel": "auto:learner=wheel", "default": "auto"}
ROW_BYTES = 100.0

TOPOLOGY = Topology.of({"quick": ["fresh"], "expand": ["bulk"]}, queries={"alerts": "quick", "pairs": "expand"})
MODELS = {"quick": OperatorModel(0.001, 1.0, ROW_BYTES), "expand": OperatorModel(0.002, 4.0, ROW_BYTES)}
RATES = {"fresh": 500.0, "bulk": 600.0}


@dataclass(frozen=True)
class Interval:
    """The metrics of an interval: results per second, and their mean delay (s)."""

    output: float
    delay: float


def run(seeds: int = SEEDS) -> Outcome:
    """Both learners, with several seeds."""
    runs = {name: [run_policy(policy, seed) for seed in range(1, seeds + 1)] for name, policy in LEARNERS.items()}
    measured: dict[str, Any] = {}
    for name, found in runs.items():
        for metric in ("output", "delay"):
            changes = [_change(each, metric) for each in found]
            measured[f"{name}_{metric}_change"] = fmean(changes)
            measured[f"{name}_{metric}_change_least"] = min(changes)
            measured[f"{name}_{metric}_change_spread"] = stdev(changes) if len(changes) > 1 else 0.0
    return Outcome(
        "objectives",
        "the same network before the change; 002 §4.3",
        "10 intervals after the objectives change from 70/30 to 30/70 (delay/output) there are more results per second"
        " with every seed",
        {f"{name}_output_change_least": 0.0 for name in LEARNERS},
        measured,
        _rule,
        {
            "seeds": seeds,
            "interval_s": INTERVAL,
            "before": BEFORE,
            "within": WITHIN,
            "after": AFTER,
            "objectives": OBJECTIVES,
            "policies": LEARNERS,
            "rates": RATES,
            "operators": {name: str(model) for name, model in MODELS.items()},
            "runtime": "the live network in one process, without Spark; operators advance its clock",
        },
        _series(runs),
        ("time (s)", ""),
        marks=[Mark(BEFORE * INTERVAL, "objectives 30/70")],
    )


def _rule(goal: Figures, measured: Figures) -> bool:
    return all(measured[key] > goal[key] for key in goal)


def _change(intervals: list[Interval], metric: str) -> float:
    """The relative change of a metric, from before the change of objectives to after it."""
    before = [getattr(each, metric) for each in intervals[BEFORE - AFTER : BEFORE]]
    after = [getattr(each, metric) for each in intervals[BEFORE + WITHIN :]]
    return fmean(after) / fmean(before) - 1


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
    total = (0, 0.0)
    for number in range(BEFORE + WITHIN + AFTER):
        if number == BEFORE:
            network.objectives = OBJECTIVES[1]
        for tick in range(round(INTERVAL / TICK)):
            _until(network, processor, clock, number * INTERVAL + tick * TICK, random)
        latencies = [outbox.latency for outbox in network.outboxes.values()]
        results, delay = sum(each.rows for each in latencies), sum(each.total for each in latencies)
        made = max(results - total[0], 1)
        found.append(Interval((results - total[0]) / INTERVAL, (delay - total[1]) / made))
        total = (results, delay)
    return found


def _until(network: Network, processor: Processor, clock: Clock, start: float, random: np.random.Generator) -> None:
    """Pushes the rows of a tick, and runs grants until it ends."""
    for stream, rate in RATES.items():
        count = int(random.poisson(rate * TICK))
        if count:
            moments = start + np.sort(random.random(count)) * TICK
            network.push(stream, padded(moments, ROW_BYTES), processor.start + float(moments.mean()), advance=False)
    while clock() - processor.start < start + TICK:
        if not network.step():
            processor.wait(start + TICK)


def _series(runs: Mapping[str, list[list[Interval]]]) -> list[Series]:
    times = [(number + 1) * INTERVAL for number in range(BEFORE + WITHIN + AFTER)]
    found: list[Series] = []
    for metric, panel in (("output", "results per second"), ("delay", "mean delay of results (s)")):
        for name, each in runs.items():
            found.append(
                Series(name, times, [fmean(getattr(run[n], metric) for run in each) for n in range(len(times))], panel)
            )
    return found

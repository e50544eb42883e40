"""Compares latencies predicted by the simulator with those of real operators, in three classes at three loads.

The workload is the 21 queries of workload A of 004 in SQL: selections, window aggregates and window joins over 27
streams with Poisson arrivals of batches. The cost of each batch in each operator (with its share of the grant) and of
each push is recorded during the run. With these costs, the same arrival times and the same ranks, the simulator must
predict the mean latency of each class. The statistics are frozen after the warm-up: HR and Chain would otherwise order
queries of one kind, across classes, by the noise of their measured costs, which the simulator does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import attrgetter

from headgate.outcome import Figures, Outcome, Series, at_most
from headgate.papers import cqc
from headgate.papers.cqc_sql import ROWS, BatchFeed, queries
from headgate.papers.live_metering import BatchArrivals, BatchTimes, Costs, Meter, run_live, warm_up
from headgate.papers.live_network import Clock
from headgate.runtime import Limits, Network
from headgate.scheduling import Topology
from headgate.scheduling.graphs import topology_of
from headgate.scheduling.statistics import Statistics
from headgate.simulation import (
    JoinModel,
    LatencyDistribution,
    Model,
    OperatorModel,
    RecordedArrivals,
    RecordedCosts,
    Simulation,
)

LOADS = (0.5, 0.7, 0.9)
POLICIES = {"FIFO": "fifo", cqc.HR: "hr", "Chain": "chain", cqc.CQC: "cqc"}
# The same on two replicas, each with every second query and its own processor.
REPLICAS, REPLICA_POLICY = 2, cqc.CQC
SECONDS = 6.0
WITHIN = 0.15


@dataclass(frozen=True)
class ComparedRun:
    """One load under one policy: mean latency (s) by class, live and predicted, and the actual load."""

    live: Mapping[str, float]
    predicted: Mapping[str, float]
    load: float
    costs: Costs

    def error(self) -> float:
        """Largest relative error of a class's prediction."""
        return max(abs(self.predicted[cls] / live - 1) for cls, live in self.live.items())


def prediction(
    seed: int,
    policies: Mapping[str, str] = POLICIES,
    loads: Sequence[float] = LOADS,
    seconds: float = SECONDS,
    replicas: int = REPLICAS,
) -> Outcome:
    """The mean latency of each class, live and predicted, on one network and on each of several replicas."""
    runs = {(name, load): _run(policy, load, seed, seconds) for name, policy in policies.items() for load in loads}
    parts = {
        (f"{REPLICA_POLICY}, replica {replica} of {replicas}", load): _run(
            POLICIES[REPLICA_POLICY], load, seed, seconds, (replicas, replica)
        )
        for replica in range(replicas)
        for load in loads
    }
    every = {**runs, **parts}
    return Outcome(
        name="sim-vs-live",
        source="ours, on the queries of 004 Table 2",
        claim=(
            "given measured costs, the simulator predicts each class's mean latency within 15% at loads of 0.5 to 0.9"
        ),
        paper={OFF: WITHIN},
        measured={
            OFF: max(run.error() for run in every.values()),
            "off by, at most, by policy": {
                name: max(run.error() for (of, _), run in every.items() if of == name) for name, _ in every
            },
            "mean latency (ms): live, predicted": _pairs(every),
            "load as it was": {f"{name}, load {load}": run.load for (name, load), run in every.items()},
            "a grant besides its operators (µs)": {f"{n}, load {x}": r.costs.grant * 1e6 for (n, x), r in runs.items()},
        },
        rule=at_most,
        setup={
            "seed": seed,
            "queries": "6 selections, 9 tumbling aggregates, 6 joins over 27 streams, in classes H, C and N",
            "policies": dict(policies),
            "loads": list(loads),
            "seconds a run": seconds,
            "rows a batch": ROWS,
            "arrivals": "Poisson batches on each stream; both sides of a join together",
            "work": "the real operators, one thread",
            "time": "processor time of the thread, advanced by idle times",
            "statistics": "frozen after the warm-up, in the network and in the simulator",
            "replicas": f"{replicas}, each with its share of whole queries, under {REPLICA_POLICY}",
        },
        series=[
            Series(f"{name}, class {cls}, {label}", list(loads), [side(runs[name, load])[cls] * 1e3 for load in loads])
            for name in policies
            for cls in cqc.A.priorities
            for label, side in (("live", attrgetter("live")), ("predicted", attrgetter("predicted")))
        ],
        axes=("load", "mean latency (ms)"),
        scales=("linear", "log"),
    )


OFF = "prediction of a class's mean latency off by at most"


def _pairs(runs: Mapping[tuple[str, float], ComparedRun]) -> Figures:
    return {
        f"{name}, load {load}, class {cls}": [live * 1e3, run.predicted[cls] * 1e3]
        for (name, load), run in runs.items()
        for cls, live in run.live.items()
    }


def _run(policy: str, load: float, seed: int, seconds: float, replica: tuple[int, int] = (1, 0)) -> ComparedRun:
    """A run of the queries of one replica (the number of replicas, and which one) under a policy."""
    graph, together = queries(*replica)
    clock = Clock()
    record = BatchTimes(clock)
    # Only the policy limits a grant.
    network = Network(graph, policy, limits=Limits(grant=1e9), clock=clock, make=record.make)
    feed = BatchFeed(seed)
    topology, _ = topology_of(graph)
    streams = sum(map(len, together))
    cost = warm_up(network, record, feed, together, clock) / streams
    source = BatchArrivals(load, cost, streams, seed, seconds)
    record.clear()
    ranks = network.freeze_statistics()
    meter = Meter(network, record, clock)
    elapsed = run_live(network, feed, together, source, meter, clock)
    costs = meter.costs()
    arrivals = {name: source.moments[names] for names in together for name in names}
    return ComparedRun(
        meter.latency(), _simulated(topology, costs, arrivals, policy, ranks), meter.busy() / elapsed, costs
    )


def _simulated(
    topology: Topology, costs: Costs, arrivals: Mapping[str, Sequence[float]], policy: str, ranks: Statistics
) -> dict[str, float]:
    """Mean latency by class in virtual time. A tuple of the simulator is a batch, of which a fraction passes.

    The policy ranks by the statistics of the network.
    """
    models: dict[str, Model] = {}
    for operator, name in enumerate(topology.operators):
        batches, share = costs.operators[name]
        edges = [topology.edges[e] for e in topology.inputs[operator]]
        # In order of arrival, as the simulator takes them from the record.
        pushes = [costs.pushes[edge.stream] for edge in edges if edge.stream is not None]
        pushed = [seconds for together in zip(*pushes, strict=True) for seconds in together]
        cost = RecordedCosts([seconds + push for seconds, push in zip_longest(batches, pushed, fillvalue=0.0)])
        if topology.kinds[operator] == "join":
            # Of two batches that arrive together, the one processed second finds all matches.
            models[name] = JoinModel(cost, 2 * share, rows=1, tumbling=True)
        else:
            models[name] = OperatorModel(cost, share)
    recorded = {name: RecordedArrivals(times) for name, times in arrivals.items()}
    simulation = Simulation(topology, models, recorded, policy, tuples="fractional")
    for o in range(len(topology.operators)):
        simulation.view.statistics.expect(
            o,
            cost=ranks.cost[o],
            selectivity=ranks.selectivity[o],
            bytes_in=ranks.bytes_in[o],
            bytes_out=ranks.bytes_out[o],
            rate=ranks.rate[o],
        )
    simulation.scheduler.refresh(0.0)
    result = simulation.run()
    latencies: dict[str, LatencyDistribution] = {cls.name: result.latency(cls=cls.name) for cls in topology.classes}
    return {cls: latency.mean for cls, latency in latencies.items()}

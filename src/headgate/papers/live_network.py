"""The papers' modelled queries in the real network: rows are Arrow rows, work is time that passes.

An operator takes each row for as long as its model says, and what the model yields goes on. So the queues, the
scheduler, the grant loop and the statistics are the real ones, and load does not depend on how fast this machine is.
What the network itself takes is made up for by the next row, as long as it is less than the work.

Time is that of this thread's processor, set forward by the work of the models and where there is nothing to do: what
else runs on the machine does not count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query, QueryClass
from headgate.graph.shared import SharedGraph
from headgate.graph.types import DOUBLE, Schema
from headgate.operators.batch import Arrival, Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.settings import Settings
from headgate.operators.source import LiveSource
from headgate.operators.stateless import Stateless
from headgate.runtime import Limits, Network
from headgate.runtime.wiring import key_of
from headgate.scheduling import Topology
from headgate.scheduling.statistics import Statistics
from headgate.simulation import (
    Arrivals,
    JoinModel,
    LatencyDistribution,
    Model,
    OperatorModel,
    RecordedArrivals,
    SimulationResult,
    simulate,
)
from headgate.simulation.known import known_statistics, row_bytes

SCHEMA = Schema.of(("at", DOUBLE))
"""A row is the moment at which it arrived, in seconds since the start."""


@dataclass(frozen=True, eq=False)
class Modelled(Operator):
    """An operator of which only the name, the kind and the inputs are known."""

    name: str
    sort: str
    sources: tuple[Operator, ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return self.sources

    @property
    def kind(self) -> str:
        return self.sort

    @property
    def detail(self) -> str:
        return self.name


class Clock:
    """The time that this thread has had a processor, and what was skipped because it had only to pass."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def __call__(self) -> float:
        return time.thread_time() + self._skipped

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """What is done meanwhile takes no time."""
        began = time.thread_time()
        yield
        self._skipped -= time.thread_time() - began

    def forward(self, moment: float) -> None:
        """Nothing happens before a moment that has not come yet."""
        self._skipped += max(0.0, moment - self())


class Processor:
    """One processor: work keeps it busy, and what came too late is made up for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.start = self._free = 0.0
        self.worked = self.rested = 0.0

    def begin(self, now: float) -> None:
        """Time counts from now."""
        self.start = self._free = now

    def work(self, seconds: float, since: float) -> None:
        """Passes the time of work that could begin when the processor was free and its rows were there."""
        self._free = max(self._free, self.start + since) + seconds
        self.worked += seconds
        self._clock.forward(self._free)

    def rest(self, until: float) -> None:
        """There is nothing to do before a moment."""
        self.rested += max(0.0, self.start + until - self._clock())
        self._clock.forward(self.start + until)

    @property
    def cost(self) -> float:
        """How much longer everything has taken than the work alone.

        All together: as one grant makes up for what another took too long, each alone tells little.
        """
        return (self._clock() - self.start - self.rested) / self.worked


def padded(moments: npt.NDArray[np.float64], size: float) -> pa.RecordBatch:
    """Rows of so many bytes, as policies that look at memory see them."""
    width = max(int(size) - 8, 1)
    filling = pa.py_buffer(bytes(width * len(moments)))
    padding = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(moments), [None, filling])
    return pa.RecordBatch.from_arrays([pa.array(moments), padding], names=["at", "padding"])


class LiveModel(Stateless):
    """A model at work on real batches: the same costs and results per row as in the simulator's whole tuples."""

    def __init__(self, model: Model, processor: Processor, size: float) -> None:
        self._size = size
        self._running = model.start(Random(0))
        self._processor = processor
        self._carry = 0.0

    def process(self, port: int, batch: Batch) -> list[Batch]:
        running = self._running
        arrived = batch.rows.column(0).to_numpy()
        seconds = 0.0
        copies = np.zeros(len(arrived), dtype=np.int64)
        for row, moment in enumerate(arrived):
            seconds += running.draw() if running.seconds is None else running.seconds
            if running.selectivity is None:
                more, made = running.take(port, float(moment), 1.0)
                seconds += more
            else:
                made = running.selectivity
            made += self._carry
            copies[row] = int(made + 1e-9)
            self._carry = made - copies[row]
        self._processor.work(seconds, float(arrived.max()))
        kept = np.repeat(arrived, copies)
        if not len(kept):
            return []
        rows = padded(kept, self._size)
        moments = kept + self._processor.start
        return [Batch(rows, Arrival(len(kept), float(moments.sum()), float(moments.min())), batch.watermark)]


class Level(NamedTuple):
    """A moment of a run: the bytes that wait, and the results so far."""

    moment: float
    waiting: float
    results: float


@dataclass(frozen=True)
class Measured:
    """What one live run gave, and what the simulator says of the same arrivals with the costs that were measured."""

    latency: Mapping[str, LatencyDistribution]
    predicted: Mapping[str, LatencyDistribution]
    cost: float
    levels: Sequence[Level]
    simulated: SimulationResult

    def errors(self) -> dict[str, float]:
        """By how much the prediction of each class's mean latency is off, as a share of what was measured."""
        return {cls: abs(self.predicted[cls].mean / found.mean - 1) for cls, found in self.latency.items()}


def slower(models: Mapping[str, Model], times: float, *, windows: bool = True) -> dict[str, Model]:
    """The same operators, each so many times slower: with rates as many times lower the load stays the same.

    With `windows` those of time are as many times longer, so that as many rows are in them.
    """
    return {name: _slower(model, times, windows) for name, model in models.items()}


def _slower(model: Model, times: float, windows: bool) -> Model:
    if isinstance(model, OperatorModel) and isinstance(model.cost, int | float):
        return replace(model, cost=model.cost * times)
    if isinstance(model, JoinModel) and isinstance(model.cost, int | float):
        window = model.window * times if windows and model.window is not None else model.window
        return replace(
            model,
            cost=model.cost * times,
            probe=model.probe * times,
            match=model.match * times,
            expire=model.expire * times,
            window=window,
        )
    raise TypeError(f"{type(model).__name__} cannot be made slower; use operators of fixed cost and joins")


def run(
    topology: Topology,
    models: Mapping[str, Model],
    arrivals: Mapping[str, Arrivals],
    policy: str,
    seed: int,
    size: float = 100.0,
) -> Measured:
    """Runs the models live, one processor, and simulates the same."""
    moments = {name: list(a.times(Random(f"{seed}/{name}"))) for name, a in arrivals.items()}
    recorded = {name: RecordedArrivals(times) for name, times in moments.items()}
    sizes, made = row_bytes(topology, models, size)
    known = known_statistics(topology, models, recorded, sizes, made, 10.0)
    clock = Clock()
    processor = Processor(clock)
    nodes, graph = _graph(topology)

    def make(node: Operator, settings: Settings) -> LiveOperator:
        if not isinstance(node, Modelled):
            return LiveSource()
        return LiveModel(models[node.name], processor, made[topology.id(node.name)])

    # A grant ends when the policy says so, not before.
    network = Network(graph, policy, limits=Limits(grant=1e9), clock=clock, make=make)
    network.expect({key_of(node): _expected(known, topology, name) for name, node in nodes.items()})
    processor.begin(clock())
    levels = _feed(network, processor, clock, moments, size)
    cost = processor.cost
    latency = _latency(network, topology)
    corrected = slower(models, cost, windows=False)
    result = simulate(topology, corrected, recorded, policy, bytes=size, seed=seed)
    predicted = {cls.name: result.latency(cls=cls.name) for cls in topology.classes}
    return Measured(latency, predicted, cost, levels, result)


def _graph(topology: Topology) -> tuple[dict[str, Operator], SharedGraph]:
    nodes: dict[str, Operator] = {}
    streams = {name: Source(SCHEMA, name) for name in topology.streams}
    for operator in topology.order:
        edges = [topology.edges[e] for e in topology.inputs[operator]]
        inputs = tuple(
            streams[edge.stream or ""] if edge.producer is None else nodes[topology.operators[edge.producer]]
            for edge in edges
        )
        name = topology.operators[operator]
        nodes[name] = Modelled(SCHEMA, name, topology.kinds[operator], inputs)
    graph = SharedGraph()
    for query in topology.queries:
        cls = QueryClass(query.cls.name, int(query.cls.priority))
        graph.add(Query(query.name, nodes[topology.operators[query.output]], SCHEMA, cls))
    return nodes, graph


def _expected(known: Statistics, topology: Topology, name: str) -> tuple[float, ...]:
    o = topology.id(name)
    return (known.cost[o], known.selectivity[o], known.bytes_in[o], known.bytes_out[o], known.rate[o])


def _feed(
    network: Network, processor: Processor, clock: Clock, moments: Mapping[str, Sequence[float]], size: float
) -> list[Level]:
    """Pushes each row when its time has come, and runs one grant after the other; gives the levels on the way."""
    coming = [(times[0], name, 0) for name, times in moments.items() if times]
    heapify(coming)
    levels: list[Level] = []
    outboxes = list(network.outboxes.values())
    while True:
        now = clock() - processor.start
        while coming and coming[0][0] <= now:
            moment, name, place = heappop(coming)
            rows = padded(np.array([moment]), size)
            network.push(name, rows, processor.start + moment, advance=False)
            if place + 1 < len(moments[name]):
                heappush(coming, (moments[name][place + 1], name, place + 1))
        levels.append(Level(now, float(network.queued_bytes), float(sum(outbox.rows for outbox in outboxes))))
        if not network.step():
            if not coming:
                return levels
            processor.rest(coming[0][0])


def _latency(network: Network, topology: Topology) -> dict[str, LatencyDistribution]:
    seconds: dict[str, list[float]] = {cls.name: [] for cls in topology.classes}
    rows: dict[str, list[float]] = {cls.name: [] for cls in topology.classes}
    for name, outbox in network.outboxes.items():
        cls = network.queries[name].cls.name
        seconds[cls].append(outbox.latency.mean)
        rows[cls].append(float(outbox.latency.rows))
    return {cls: LatencyDistribution(np.array(seconds[cls]), np.array(rows[cls])) for cls in seconds}

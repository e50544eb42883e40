"""Runs the papers' modelled queries in the real network: rows are Arrow rows, work is simulated by advancing the clock.

An operator spends on each row the time that its model states and passes on the results that the model yields. Queues,
scheduler, grant loop and statistics are the real ones, and the load does not depend on the speed of the machine. The
overhead of the network itself is deducted from the work that follows, as long as there is enough of it.

Time is the processor time of this thread, advanced by the work of the models and by idle times: other load on the
machine does not count.
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
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless
from headgate.runtime import Limits, Network
from headgate.runtime.dataflow import key_of
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
from headgate.simulation.known_statistics import known_statistics, row_sizes

SCHEMA = Schema.of(("at", DOUBLE))
"""A row holds its arrival time, in seconds since the start."""

SETUP = {
    "work": "operators advance the clock by the cost of a row; queues, scheduler and grant loop are real",
    "time": "processor time of the thread, advanced by that work and by idle times",
}
"""The part of an experiment's setup that all runs in the real network share."""


@dataclass(frozen=True, eq=False)
class ModelledOperator(Operator):
    """A graph node with only a name, a kind and inputs; its model does the work."""

    name: str
    kind_name: str
    sources: tuple[Operator, ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return self.sources

    @property
    def kind(self) -> str:
        return self.kind_name

    @property
    def detail(self) -> str:
        return self.name


class Clock:
    """Processor time of this thread, plus the time by which the clock was advanced."""

    def __init__(self) -> None:
        self._advanced = 0.0

    def __call__(self) -> float:
        return time.thread_time() + self._advanced

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The clock stands still inside this context."""
        began = time.thread_time()
        yield
        self._advanced -= time.thread_time() - began

    def advance_to(self, moment: float) -> None:
        """Advances the clock to a moment, unless it has passed."""
        self._advanced += max(0.0, moment - self())


class Processor:
    """A processor that executes modelled work; delays caused by the network are made up for in later work."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.start = self._free = 0.0
        self.busy = self.idle = 0.0

    def begin(self, now: float) -> None:
        """Sets the start of the run."""
        self.start = self._free = now

    def work(self, seconds: float, since: float) -> None:
        """Executes work that can begin once the processor is free and its rows have arrived (`since`)."""
        self._free = max(self._free, self.start + since) + seconds
        self.busy += seconds
        self._clock.advance_to(self._free)

    def wait(self, until: float) -> None:
        """Idles until a moment."""
        self.idle += max(0.0, self.start + until - self._clock())
        self._clock.advance_to(self.start + until)

    @property
    def slowdown(self) -> float:
        """Time taken in total as a multiple of the work alone.

        Only the total is meaningful, since a grant makes up for the overhead of earlier ones.
        """
        return (self._clock() - self.start - self.idle) / self.busy


def padded(moments: npt.NDArray[np.float64], size: float) -> pa.RecordBatch:
    """Rows padded to `size` bytes, for policies that consider memory."""
    width = max(int(size) - 8, 1)
    zeros = pa.py_buffer(bytes(width * len(moments)))
    padding = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(moments), [None, zeros])
    return pa.RecordBatch.from_arrays([pa.array(moments), padding], names=["at", "padding"])


class LiveModel(Stateless):
    """Applies a model to real batches, with the costs and results per row of the simulator's "whole" tuples."""

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
    """The state at a moment of a run: bytes in the queues, and number of results."""

    moment: float
    queued_bytes: float
    results: float


@dataclass(frozen=True)
class LiveRun:
    """One run in the real network, and its simulation with the same arrivals and the measured costs.

    `slowdown` is the time taken as a multiple of the models' work; latencies are by class.
    """

    latency: Mapping[str, LatencyDistribution]
    predicted: Mapping[str, LatencyDistribution]
    slowdown: float
    levels: Sequence[Level]
    simulated: SimulationResult

    def errors(self) -> dict[str, float]:
        """Relative error of the predicted mean latency of each class."""
        return {cls: abs(self.predicted[cls].mean / live.mean - 1) for cls, live in self.latency.items()}


def slower(models: Mapping[str, Model], factor: float, *, windows: bool = True) -> dict[str, Model]:
    """The same operators, slower by a factor; with rates lower by that factor the load stays the same.

    With `windows`, time windows are longer by the factor, so that they hold the same number of rows.
    """
    return {name: _slower(model, factor, windows) for name, model in models.items()}


def _slower(model: Model, factor: float, windows: bool) -> Model:
    if isinstance(model, OperatorModel) and isinstance(model.cost, int | float):
        return replace(model, cost=model.cost * factor)
    if isinstance(model, JoinModel) and isinstance(model.cost, int | float):
        window = model.window * factor if windows and model.window is not None else model.window
        return replace(
            model,
            cost=model.cost * factor,
            probe=model.probe * factor,
            match=model.match * factor,
            expire=model.expire * factor,
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
) -> LiveRun:
    """Runs the models in the real network with one thread, and simulates the same run."""
    moments = {name: list(a.times(Random(f"{seed}/{name}"))) for name, a in arrivals.items()}
    recorded = {name: RecordedArrivals(times) for name, times in moments.items()}
    sizes, made = row_sizes(topology, models, size)
    known = known_statistics(topology, models, recorded, sizes, made, 10.0)
    clock = Clock()
    processor = Processor(clock)
    nodes, graph = modelled_graph(topology)

    def make(node: Operator, settings: Settings) -> LiveOperator:
        if not isinstance(node, ModelledOperator):
            return live(node, settings)
        return LiveModel(models[node.name], processor, made[topology.id(node.name)])

    # Only the policy limits a grant.
    network = Network(graph, policy, limits=Limits(grant=1e9), clock=clock, make=make)
    network.expect({key_of(node): _expected(known, topology, name) for name, node in nodes.items()})
    processor.begin(clock())
    levels = _feed(network, processor, clock, moments, size)
    slowdown = processor.slowdown
    latency = _latency(network, topology)
    corrected = slower(models, slowdown, windows=False)
    result = simulate(topology, corrected, recorded, policy, bytes=size, seed=seed)
    predicted = {cls.name: result.latency(cls=cls.name) for cls in topology.classes}
    return LiveRun(latency, predicted, slowdown, levels, result)


def modelled_graph(topology: Topology) -> tuple[dict[str, Operator], SharedGraph]:
    """The nodes of a topology by their names, and the graph of its queries."""
    nodes: dict[str, Operator] = {}
    streams = {name: Source(SCHEMA, name) for name in topology.streams}
    for operator in topology.order:
        edges = [topology.edges[e] for e in topology.inputs[operator]]
        inputs = tuple(
            streams[edge.stream or ""] if edge.producer is None else nodes[topology.operators[edge.producer]]
            for edge in edges
        )
        name = topology.operators[operator]
        nodes[name] = ModelledOperator(SCHEMA, name, topology.kinds[operator], inputs)
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
    """Pushes each row at its arrival time and runs grants in between; returns the levels before each grant."""
    upcoming = [(times[0], name, 0) for name, times in moments.items() if times]
    heapify(upcoming)
    levels: list[Level] = []
    outboxes = list(network.outboxes.values())
    while True:
        now = clock() - processor.start
        while upcoming and upcoming[0][0] <= now:
            moment, name, place = heappop(upcoming)
            rows = padded(np.array([moment]), size)
            network.push(name, rows, processor.start + moment, advance=False)
            if place + 1 < len(moments[name]):
                heappush(upcoming, (moments[name][place + 1], name, place + 1))
        levels.append(Level(now, float(network.queued_bytes), float(sum(outbox.rows for outbox in outboxes))))
        if not network.step():
            if not upcoming:
                return levels
            processor.wait(upcoming[0][0])


def _latency(network: Network, topology: Topology) -> dict[str, LatencyDistribution]:
    seconds: dict[str, list[float]] = {cls.name: [] for cls in topology.classes}
    rows: dict[str, list[float]] = {cls.name: [] for cls in topology.classes}
    for name, outbox in network.outboxes.items():
        cls = network.queries[name].cls.name
        seconds[cls].append(outbox.latency.mean)
        rows[cls].append(float(outbox.latency.rows))
    return {cls: LatencyDistribution(np.array(seconds[cls]), np.array(rows[cls])) for cls in seconds}

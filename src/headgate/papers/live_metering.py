"""A run of real operators on one thread, metered: every batch in every operator, every push, and the latencies.

Time is the processor time of this thread, advanced by idle times: other load on the machine neither delays a batch nor
counts as latency, and the run does not wait for the next arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

import numpy as np

from headgate.graph.operators import Operator
from headgate.operators.batch import Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.papers import cqc
from headgate.papers.cqc_sql import ROWS, BatchFeed
from headgate.papers.live_network import Clock
from headgate.runtime import Network
from headgate.runtime.dataflow import key_of

WARM_UP = 8
# The cost of a batch is averaged over this number of batches.
MEMORY = 100


@dataclass(frozen=True)
class Costs:
    """Measured costs in seconds: of each batch in each operator, of each push, and of a grant outside its operators.

    `operators`: by name, the seconds of each batch in processing order, scaled to a full batch, and the selectivity.
    `pushes`: by stream, the seconds of each push to an idle network; other pushes count in the batch before them.
    `grant`: mean seconds of a grant outside its operators; they also count in the batches of the grant.
    """

    operators: Mapping[str, tuple[Sequence[float], float]]
    pushes: Mapping[str, Sequence[float]]
    grant: float


class BatchTimes:
    """Records the time of each batch in each operator, by operator key, including the watermark that follows it and its
    share of the grant's overhead. Batches that stem from the same pushed batch count as one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.batches: dict[str, list[float]] = {}
        self._inside = 0.0
        self._granted: list[tuple[list[float], int]] = []
        self._last: tuple[list[float], int] | None = None

    def make(self, node: Operator, settings: Settings) -> LiveOperator:
        """The live operator of a node, with its calls recorded."""
        operator = live(node, settings)
        process, advance, clock = operator.process, operator.advance, self._clock
        batches = self.batches.setdefault(key_of(node), [])
        last: dict[int, float] = {}
        place: dict[int, int] = {}

        def timed(port: int, batch: Batch) -> list[Batch]:
            began = clock()
            made = process(port, batch)
            elapsed = clock() - began
            if batch.arrival.first != last.get(port) or place[port] >= len(batches):
                last[port], place[port] = batch.arrival.first, len(batches)
                batches.append(0.0)
            batches[place[port]] += elapsed
            self._inside += elapsed
            self._granted.append((batches, place[port]))
            return made

        def timed_advance(port: int, watermark: int) -> tuple[list[Batch], int]:
            began = clock()
            made = advance(port, watermark)
            elapsed = clock() - began
            self._inside += elapsed
            if batches:
                batches[-1] += elapsed
                self._granted.append((batches, len(batches) - 1))
            return made

        operator.process, operator.advance = timed, timed_advance  # type: ignore[method-assign]
        return operator

    def granted(self, seconds: float) -> float:
        """Spreads the time of a grant outside its operators evenly over its batches, and returns it."""
        outside = seconds - self._inside
        for batches, place in self._granted:
            batches[place] += outside / len(self._granted)
        self._last = self._granted[-1] if self._granted else self._last
        self._inside = 0.0
        self._granted.clear()
        return outside

    def pushed(self, seconds: float) -> None:
        """Adds the time of a push to the last batch: it delays queued rows as a longer grant would."""
        assert self._last is not None
        batches, place = self._last
        batches[place] += seconds

    def clear(self) -> None:
        """Discards all records."""
        for batches in self.batches.values():
            batches.clear()


class Meter:
    """Measures from its creation on: costs, latencies and the time spent.

    A push or grant is charged all the time since the previous one (or since the network was idle): at a load of 0.9,
    leaving 1% of the time unaccounted for changes the latency by 10%.
    """

    def __init__(self, network: Network, record: BatchTimes, clock: Clock) -> None:
        self._clock = clock
        self._record = record
        self.pushing = self.stepping = self.outside = 0.0
        self.pushes = self.grants = 0
        self._last = clock()
        self._idle = True
        self._pushes: dict[str, list[float]] = {}
        figures = network.metrics()
        self._network = network
        self._before = {o["name"]: (o["rows_in"], o["rows_out"]) for o in figures["operators"]}
        self._latency = {n: (box.latency.rows, box.latency.total) for n, box in network.outboxes.items()}

    def costs(self) -> Costs:
        operators: dict[str, tuple[Sequence[float], float]] = {}
        for operator in self._network.metrics()["operators"]:
            rows_in, rows_out = self._before[operator["name"]]
            taken, made = operator["rows_in"] - rows_in, operator["rows_out"] - rows_out
            batches = self._record.batches[operator["key"]]
            # In the simulator all batches of an operator are the same fraction of a full batch.
            whole = ROWS * len(batches) / taken
            operators[operator["name"]] = ([seconds * whole for seconds in batches], made / taken)
        return Costs(operators, self._pushes, self.outside / self.grants)

    def latency(self) -> dict[str, float]:
        """Mean latency by class of the results since the start."""
        rows: dict[str, int] = {}
        total: dict[str, float] = {}
        for name, box in self._network.outboxes.items():
            cls = self._network.queries[name].cls.name
            before = self._latency[name]
            rows[cls] = rows.get(cls, 0) + box.latency.rows - before[0]
            total[cls] = total.get(cls, 0.0) + box.latency.total - before[1]
        return {cls: total[cls] / rows[cls] for cls in cqc.A.priorities}

    def busy(self) -> float:
        return self.pushing + self.stepping

    def push(self, stream: str, feed: BatchFeed, arrived: float) -> None:
        with self._clock.stopped():
            rows = feed.batch(stream)
        self._network.push(stream, rows, arrived)
        elapsed = self._since()
        self.pushing += elapsed
        self.pushes += 1
        if not self._idle:
            self._record.pushed(elapsed)
            elapsed = 0.0
        self._pushes.setdefault(stream, []).append(elapsed)

    def step(self) -> bool:
        ran = self._network.step()
        if ran:
            elapsed = self._since()
            self._idle = False
            self.stepping += elapsed
            self.grants += 1
            self.outside += self._record.granted(elapsed)
        return ran

    def idle(self, until: float) -> None:
        """Idles until a moment."""
        self._clock.advance_to(until)
        self._since()
        self._idle = True

    def _since(self) -> float:
        now = self._clock()
        elapsed, self._last = now - self._last, now
        return elapsed


class BatchArrivals:
    """Poisson arrivals of batches, at a rate that keeps the load constant.

    The cost of a batch varies with other use of the machine's memory and caches, so the rate follows it.
    """

    def __init__(self, load: float, cost: float, streams: int, seed: int, seconds: float) -> None:
        self._load = load
        self._seconds = seconds
        self._streams = streams
        self._spent, self._batches = cost * MEMORY, float(MEMORY)
        self._seen = (0.0, 0)
        self._chance = Random(seed)
        self.moments: dict[tuple[str, ...], list[float]] = {}

    def after(self, moment: float, names: tuple[str, ...], meter: Meter) -> float | None:
        """The next arrival time on these streams; None if it is after the end."""
        self._spent += meter.busy() - self._seen[0]
        self._batches += meter.pushes - self._seen[1]
        self._seen = (meter.busy(), meter.pushes)
        if self._batches > MEMORY:
            self._spent *= MEMORY / self._batches
            self._batches = MEMORY
        rate = self._load / (self._spent / self._batches * self._streams)
        following = moment + self._chance.expovariate(rate)
        if following > self._seconds:
            return None
        self.moments.setdefault(names, []).append(following)
        return following


def warm_up(
    network: Network, record: BatchTimes, feed: BatchFeed, together: Sequence[Sequence[str]], clock: Clock
) -> float:
    """The cost of one batch on every stream once all code has run, and the operators' costs have been measured."""
    spent: list[float] = []
    for _ in range(WARM_UP):
        meter = Meter(network, record, clock)
        for name in (name for names in together for name in names):
            meter.push(name, feed, clock())
        while meter.step():
            pass
        spent.append(meter.busy())
        discard_results(network)
    return float(np.median(spent[2:]))


def run_live(
    network: Network,
    feed: BatchFeed,
    together: Sequence[tuple[str, ...]],
    source: BatchArrivals,
    meter: Meter,
    clock: Clock,
) -> float:
    """Pushes each batch at its arrival time and runs grants in between; returns the time taken."""
    upcoming: list[tuple[float, tuple[str, ...]]] = []
    for names in together:
        source.moments[names] = []
        if (first := source.after(0.0, names, meter)) is not None:
            heappush(upcoming, (first, names))
    start = clock()
    while True:
        now = clock() - start
        while upcoming and upcoming[0][0] <= now:
            moment, names = heappop(upcoming)
            for name in names:
                meter.push(name, feed, start + moment)
            if (following := source.after(moment, names, meter)) is not None:
                heappush(upcoming, (following, names))
        if not meter.step():
            if not upcoming:
                return clock() - start
            with clock.stopped():
                discard_results(network)
            meter.idle(start + upcoming[0][0])


def discard_results(network: Network) -> None:
    for name in network.queries:
        network.take(name)

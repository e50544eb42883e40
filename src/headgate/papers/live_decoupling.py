"""000 §6.3, Fig. 6 on real threads: two sources, a join in their own threads or behind a bounded queue.

The join's work is a sleep of its modelled cost, so that the result does not depend on the speed or the load of the
machine; sources, queue, grant loop and threads are real. All times are a tenth of the paper's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from random import Random

import numpy as np
import pyarrow as pa

from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.batch import Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless
from headgate.outcome import Figures, Outcome, Series
from headgate.papers.hmts.decoupling import (
    DIRECT,
    FALLS,
    HASH,
    MATCHING,
    NESTED,
    POLICIES,
    QUEUED,
    WINDOW,
    Floats,
    falls_after,
    joins,
)
from headgate.papers.live_network import SCHEMA, ModelledOperator
from headgate.runtime import Limits, Network
from headgate.simulation import JoinModel

FASTER = 10.0
SECONDS = 18.0
# A quarter of the paper's rate, with elements four times as expensive: less work for Python.
RATE = 250.0
BATCH = 5
QUEUE = 1_250
EVERY = 0.5
# A bounded queue must sustain the rate at least this many times as long as no queue does.
LONGER = 2.0
STREAMS = ("left", "right")


class SleepingJoin(Stateless):
    """A modelled join that takes the time of its rows by sleeping."""

    def __init__(self, model: JoinModel) -> None:
        self._running = model.start(Random(0))

    def process(self, port: int, batch: Batch) -> list[Batch]:
        running = self._running
        seconds = 0.0
        for moment in batch.rows.column(0).to_pylist():
            more, _ = running.take(port, moment, 1.0)
            seconds += more + (running.draw() if running.seconds is None else running.seconds)
        time.sleep(seconds)
        return []


class SourceThread:
    """A source that delivers at a constant rate in its own thread; elements that it cannot deliver in time are late."""

    def __init__(self, network: Network, stream: str, bound: int, seconds: float, start: float) -> None:
        self._network, self._stream, self._bound = network, stream, bound
        self._seconds, self._start = seconds, start
        self.delivered: list[float] = []
        self._thread = threading.Thread(target=self._run, name=f"source {stream}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        for number in range(int(self._seconds * RATE / BATCH)):
            due = number * BATCH / RATE
            while (ahead := due - self._now()) > 0:
                time.sleep(ahead)
            while self._network.waiting >= self._bound and self._now() < self._seconds:
                time.sleep(0.001)
            if self._now() >= self._seconds:
                return
            moments = due + np.arange(BATCH) / RATE
            rows = pa.RecordBatch.from_arrays([pa.array(moments)], names=["at"])
            self._network.push(self._stream, rows, advance=False)
            self.delivered.append(self._now())

    def _now(self) -> float:
        return time.perf_counter() - self._start


def rates_of(model: JoinModel, policy: str, bound: int, seconds: float) -> Floats:
    """The rate at which the sources deliver (elements/s, mean of both), by intervals of `EVERY` seconds."""

    def make(node: Operator, settings: Settings) -> LiveOperator:
        return SleepingJoin(model) if isinstance(node, ModelledOperator) else live(node, settings)

    graph = SharedGraph()
    graph.add(
        Query("join", ModelledOperator(SCHEMA, "join", "join", tuple(Source(SCHEMA, s) for s in STREAMS)), SCHEMA)
    )
    network = Network(graph, policy, limits=Limits(stuck=600.0), make=make)
    start = time.perf_counter()
    sources = [SourceThread(network, stream, bound, seconds, start) for stream in STREAMS]
    for source in sources:
        source.start()
    while time.perf_counter() - start < seconds:
        # Without queues there is nothing to run here: the threads of the sources run the join.
        network.run(budget=max(seconds - (time.perf_counter() - start), 0.0))
        time.sleep(0.001)
    for source in sources:
        source.join()
    network.close()
    edges = np.arange(0.0, seconds + EVERY / 2, EVERY)
    counted = [np.histogram(source.delivered, edges)[0] * BATCH / EVERY for source in sources]
    return np.asarray(np.mean(counted, axis=0), np.float64)


def decoupling_live(seed: int, seconds: float = SECONDS) -> Outcome:
    """Fig. 6: all four combinations at once, each with its own threads. Deterministic: the seed has no effect."""
    rates: dict[tuple[str, str], Floats] = {}

    def measure(name: str, how: str) -> None:
        rates[name, how] = rates_of(joins(RATE, FASTER)[name], POLICIES[how], QUEUE, seconds)

    threads = [threading.Thread(target=measure, args=(name, how)) for name in FALLS for how in POLICIES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    measured: dict[str, object] = {
        f"{name} {how}": falls_after(curve, EVERY, RATE) for (name, how), curve in sorted(rates.items())
    }
    return Outcome(
        name="hmts-decoupling-live",
        source="000 §6.3, Fig. 6",
        claim="on real threads: without queues the input rate drops, first with the nested-loops join; a bounded queue "
        f"sustains it at least {LONGER:g} times as long",
        paper={
            f"{HASH} {DIRECT}": FALLS[HASH] / FASTER,
            f"{NESTED} {DIRECT}": FALLS[NESTED] / FASTER,
            f"{HASH} {QUEUED}": None,
            f"{NESTED} {QUEUED}": None,
        },
        measured=measured,
        rule=queues_help,
        setup={
            "seed": seed,
            "figures": "seconds until the input rate falls for good; none: sustained to the end",
            "times": f"the paper's divided by {FASTER:g}; those without queues are fitted (see hmts-decoupling)",
            "seconds": seconds,
            "rate of each source (elements/s)": RATE,
            "elements a delivery": BATCH,
            "elements a queue holds": QUEUE,
            "window (s)": WINDOW / FASTER,
            "share of pairs that match": MATCHING,
            "work": "the join sleeps for the modelled cost of its rows; threads, queue and grant loop are real",
        },
        series=[
            Series(f"{name}, {how}", [(n + 0.5) * EVERY for n in range(len(curve))], curve.tolist())
            for (name, how), curve in rates.items()
        ],
        axes=("time (s)", "input rate (elements/s, mean of both sources)"),
    )


def queues_help(paper: Figures, measured: Mapping[str, float | None]) -> bool:
    """§6.3: both joins "can not keep pace with the input rate", the nested-loops join sooner; "without queues placed
    before each join, we would inevitably lose data"."""
    hashed, nested = (measured[f"{name} {DIRECT}"] for name in (HASH, NESTED))
    if hashed is None or nested is None or not nested < hashed:
        return False
    return all(
        (longer := measured[f"{name} {QUEUED}"]) is None or longer >= LONGER * before
        for name, before in ((HASH, hashed), (NESTED, nested))
    )

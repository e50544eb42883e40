"""The experiments of 000 on threads in the real network: DI, GTS and OTS."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from threading import Semaphore

import numpy as np
import pyarrow as pa

from headgate.graph.expressions import Call, Column, Literal
from headgate.graph.operators import Operator, Select, Source
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.graph.types import BIGINT, BOOLEAN, Schema
from headgate.operators.batch import Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless
from headgate.outcome import Figures, Outcome, Series
from headgate.papers.live_network import ModelledOperator
from headgate.runtime import Limits, Network

SELECTIVITIES = (0.998, 0.996, 0.994, 0.992, 0.990)
VALUES = 10_000_000
ELEMENTS = tuple(range(100_000, 1_000_001, 300_000))
QUERIES = (1, 5, 20, 50, 200)
# The paper passes elements one at a time; small batches give queues and threads a similar weight.
BATCH = 500
# Batch sizes at which OTS and GTS are compared, on the largest number of elements.
BATCHES = (500, 2_000, 10_000, 50_000)
# Work of an operator that needs no interpreter lock (seconds a batch), on two processors, for this many batches.
WORK = (0.0, 0.0001, 0.0003, 0.001, 0.003)
PROCESSORS = 2
WORK_BATCHES = 100
SCALE_ELEMENTS, SCALE_BATCH = 100_000, 5_000
ROUNDS = 3
SCALE_RUNS = 60
# Fig. 8: the ratio of the times must grow at least by this factor from one query to the most. A policy compared with
# itself on a loaded machine gave ratios of 0.89 to 1.12. No step may lose more than this share.
GROWTH, SPREAD = 1.5, 0.1
# DI: one thread, one queue after the source. GTS: one thread, a queue before each operator. OTS: a thread per operator.
DI, GTS, OTS = "DI", "GTS", "OTS"
POLICIES = {DI: "di:sources=queued", GTS: "gts:inner=chain,placement=every", OTS: "ots"}

SCHEMA = Schema.of(("value", BIGINT))


def modes(
    seed: int,
    elements: Sequence[int] = ELEMENTS,
    sizes: Sequence[int] = BATCHES,
    work: Sequence[float] = WORK,
) -> Outcome:
    """Fig. 7: the time of five selections by number of elements, by the size of a batch, and by work without a lock."""
    others = OtherLoad()
    times = _times_by([_batches(number, BATCH, seed) for number in elements])
    by_batch = _times_by([_batches(elements[-1], size, seed) for size in sizes])
    # Fitted over the sizes of a batch: seconds per batch that the queues of five operators add to DI.
    counts = [elements[-1] / size for size in sizes]
    added = {name: _cost_of_queues(counts, by_batch[name], by_batch[DI]) for name in (GTS, OTS)}
    unlocked = {name: [_run_unlocked(each, POLICIES[name]) for each in work] for name in (GTS, OTS)}
    turns = [each for each, ots, gts in zip(work, unlocked[OTS], unlocked[GTS], strict=True) if ots < gts]
    return Outcome(
        name="hmts-modes",
        source="000 §6.4, Fig. 7",
        claim="a simple query is at least 40% faster without queues than with a thread for each operator, which in "
        f"turn is faster than one thread for all by at least {SIGNIFICANT - 1:.0%}",
        paper={OTS_DI: 1.4, GTS_OTS: None},
        measured={
            OTS_DI: _mean_ratio(times[OTS], times[DI]),
            GTS_OTS: _mean_ratio(times[GTS], times[OTS]),
            "GTS's time over DI's": _mean_ratio(times[GTS], times[DI]),
            "OTS's time over GTS's, by work of an operator outside the lock (µs a batch)": {
                f"{each * 1e6:g}": ots / gts for each, ots, gts in zip(work, unlocked[OTS], unlocked[GTS], strict=True)
            },
            "OTS is faster than GTS from this work outside the lock (µs a batch)": min(turns, default=inf) * 1e6,
            "OTS's time over GTS's, by size of a batch": {
                str(size): ots / gts for size, ots, gts in zip(sizes, by_batch[OTS], by_batch[GTS], strict=True)
            },
            "queues of five operators, µs a batch": {name: seconds * 1e6 for name, seconds in added.items()},
            OTHERS: others.share(),
        },
        rule=as_in_figure_7,
        setup={
            "seed": seed,
            "selectivities": list(SELECTIVITIES),
            "elements a batch": BATCH,
            "policies": POLICIES,
            "rounds": ROUNDS,
            "work outside the lock": f"operators that sleep, at most {PROCESSORS} at a time; {WORK_BATCHES} batches",
        },
        series=[
            *(
                Series(name, [float(e) for e in elements], found, "time (s), by elements")
                for name, found in times.items()
            ),
            *(Series(n, [float(b) for b in sizes], found, "time (s), by batch size") for n, found in by_batch.items()),
        ],
        axes=("elements, or elements a batch", ""),
        scales=("log", "linear"),
    )


OTS_DI, GTS_OTS = "OTS's time over DI's", "GTS's time over OTS's"
# "Significantly faster": more than the times of one policy differ from run to run on a loaded machine.
SIGNIFICANT = 1.2


def as_in_figure_7(paper: Figures, measured: Figures) -> bool:
    """§6.4: "OTS is significantly faster than GTS due to its efficient use of the multicore environment. However, DI is
    even without parallelism still 40 % faster than OTS"."""
    return bool(measured[OTS_DI] >= paper[OTS_DI] and measured[GTS_OTS] >= SIGNIFICANT)


def scale(seed: int, queries: Sequence[int] = QUERIES, runs: int = SCALE_RUNS) -> Outcome:
    """Fig. 8: DI and OTS by number of queries."""
    others = OtherLoad()
    batches = _batches(SCALE_ELEMENTS, SCALE_BATCH, seed)
    names = (DI, OTS)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in queries:
        # A run of few queries takes milliseconds: the best of many is compared.
        for name, seconds in _best(names, number, batches, max(runs // number, 1)).items():
            times[name].append(seconds)
    ratios = [ots / di for ots, di in zip(times[OTS], times[DI], strict=True)]
    return Outcome(
        name="hmts-scale",
        source="000 §6.5, Fig. 8",
        claim="DI's advantage over a thread per operator is not constant but grows with the number of queries",
        paper={RATIOS: None},
        measured={
            RATIOS: dict(zip(map(str, queries), ratios, strict=True)),
            "seconds saved": {str(q): o - d for q, o, d in zip(queries, times[OTS], times[DI], strict=True)},
            OTHERS: others.share(),
        },
        rule=advantage_grows,
        setup={
            "seed": seed,
            "elements": SCALE_ELEMENTS,
            "elements a batch": SCALE_BATCH,
            "selectivities": list(SELECTIVITIES),
            "queries": list(queries),
            "threads under OTS": "one per operator, five per query",
        },
        series=[Series(name, [float(q) for q in queries], seconds_by_size) for name, seconds_by_size in times.items()],
        axes=("queries", "time (s)"),
    )


RATIOS = "OTS's time over DI's, by number of queries"


def advantage_grows(paper: Figures, measured: Figures) -> bool:
    """§6.5: "DI's performance advantage over OTS is not constant, but increases with number of queries"."""
    ratios = list(measured[RATIOS].values())
    steady = all(later >= before * (1 - SPREAD) for before, later in pairwise(ratios))
    return bool(ratios[-1] >= ratios[0] * GROWTH and steady)


def _times_by(several: Sequence[Sequence[pa.RecordBatch]]) -> dict[str, list[float]]:
    """The best time of each policy for each list of batches, with one query."""
    best = [_best(list(POLICIES), 1, batches, ROUNDS) for batches in several]
    return {name: [found[name] for found in best] for name in POLICIES}


def _cost_of_queues(batches: Sequence[float], queued: Sequence[float], direct: Sequence[float]) -> float:
    """Seconds per batch by which a policy is slower than DI, by least squares over the number of batches."""
    return float(np.polyfit(batches, np.array(queued) - np.array(direct), 1)[0])


OTHERS = "share of the processors that other processes used meanwhile"
"""These experiments measure wall-clock time: under other load, a policy with more threads gets more processor time."""


class OtherLoad:
    """Measures the share of the processors that other processes use, from its creation on."""

    def __init__(self) -> None:
        self._began = self._read()

    def share(self) -> float | None:
        """Between 0 and 1; None where the system does not report it."""
        if self._began is None or (now := self._read()) is None:
            return None
        total, busy, own = (after - before for after, before in zip(now, self._began, strict=True))
        return max(busy - own, 0.0) / max(total, 1e-9)

    @staticmethod
    def _read() -> tuple[float, float, float] | None:
        """Processor seconds of the machine, those that were used, and those that this process used."""
        try:
            ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except (OSError, ValueError):
            return None
        second = os.sysconf("SC_CLK_TCK")
        return sum(ticks) / second, (sum(ticks) - ticks[3] - ticks[4]) / second, time.process_time()


def _best(names: Sequence[str], queries: int, batches: Sequence[pa.RecordBatch], rounds: int) -> dict[str, float]:
    """The best time of each policy, measured in turn: other processes may use the processors at any time."""
    best = dict.fromkeys(names, inf)
    for _ in range(rounds):
        for name in names:
            best[name] = min(best[name], _run(queries, batches, POLICIES[name]))
    return best


def _mean_ratio(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.mean(np.array(one) / np.array(other)))


def _batches(elements: int, size: int, seed: int) -> list[pa.RecordBatch]:
    values = np.random.default_rng(seed).integers(1, VALUES, elements)
    return [
        pa.RecordBatch.from_arrays([pa.array(values[start : start + size])], names=["value"])
        for start in range(0, elements, size)
    ]


def _run(queries: int, batches: Sequence[pa.RecordBatch], policy: str) -> float:
    """The time in which a network drains the queue of its source."""
    # With hundreds of threads on a few cores long waits are normal.
    return _timed(Network(_graph(queries), policy, limits=Limits(stuck=600.0)), batches)


def _timed(network: Network, batches: Sequence[pa.RecordBatch]) -> float:
    """Warms a network up with one row, then drains all batches."""
    network.push("source", batches[0].slice(0, 1))
    network.run()
    for batch in batches:
        network.push("source", batch)
    began = time.perf_counter()
    network.run()
    seconds = time.perf_counter() - began
    network.close()
    return seconds


class _Unlocked(Stateless):
    """An operator whose work needs a processor but not Python's lock, as the kernels of Arrow do."""

    def __init__(self, seconds: float, processors: Semaphore) -> None:
        self._seconds, self._processors = seconds, processors

    def process(self, port: int, batch: Batch) -> list[Batch]:
        if self._seconds:
            with self._processors:
                time.sleep(self._seconds)
        return [batch]


def _run_unlocked(seconds: float, policy: str) -> float:
    """The time of a query of five operators with this much work a batch."""
    processors = Semaphore(PROCESSORS)
    plan: Operator = Source(SCHEMA, "source")
    for number in range(len(SELECTIVITIES)):
        plan = ModelledOperator(SCHEMA, f"operator {number}", "select", (plan,))
    graph = SharedGraph()
    graph.add(Query("query", plan, SCHEMA))

    def make(node: Operator, settings: Settings) -> LiveOperator:
        return _Unlocked(seconds, processors) if isinstance(node, ModelledOperator) else live(node, settings)

    # A train is one batch: operators overlap batch by batch, as elements do in the paper.
    return _timed(Network(graph, policy, limits=Limits(stuck=600.0), make=make), _batches(WORK_BATCHES, 1, 0))


def _graph(queries: int) -> SharedGraph:
    """Five consecutive selections per query, with different constants in each, so that nothing is shared."""
    graph = SharedGraph()
    source = Source(SCHEMA, "source")
    for number in range(queries):
        plan: Operator = source
        left = 1.0
        for selectivity in SELECTIVITIES:
            left *= selectivity
            bound = Literal(BIGINT, int(VALUES * left) + number)
            plan = Select(SCHEMA, plan, (Call(BOOLEAN, "lt", (Column(BIGINT, 0), bound)),))
        graph.add(Query(f"query {number}", plan, SCHEMA))
    return graph

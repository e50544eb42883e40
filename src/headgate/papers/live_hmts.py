"""The experiments of 000 on threads in the real network: DI, GTS and OTS."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf

import numpy as np
import pyarrow as pa

from headgate.graph.expressions import Call, Column, Literal
from headgate.graph.operators import Operator, Select, Source
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.graph.types import BIGINT, BOOLEAN, Schema
from headgate.outcome import Figures, Outcome, Series
from headgate.runtime import Limits, Network

SELECTIVITIES = (0.998, 0.996, 0.994, 0.992, 0.990)
VALUES = 10_000_000
ELEMENTS = tuple(range(100_000, 1_000_001, 300_000))
QUERIES = (1, 5, 20, 50, 200)
# The paper passes elements one at a time; small batches give queues and threads a similar weight.
BATCH = 500
# Batch sizes at which OTS and GTS are compared, on the largest number of elements.
BATCHES = (500, 2_000, 10_000, 50_000, 200_000)
SCALE_ELEMENTS, SCALE_BATCH = 100_000, 5_000
ROUNDS = 3
# Fig. 8: ratios of two times vary by about this much from run to run.
SPREAD = 0.1
# DI: one thread, one queue after the source. GTS: one thread, a queue before each operator. OTS: a thread per operator.
DI, GTS, OTS = "DI", "GTS", "OTS"
POLICIES = {DI: "di:sources=queued", GTS: "gts:inner=chain,placement=every", OTS: "ots"}

SCHEMA = Schema.of(("value", BIGINT))


def modes(seed: int) -> Outcome:
    """Fig. 7: the time of five selections by number of elements, and by the size of a batch."""
    times: dict[str, list[float]] = {name: [] for name in POLICIES}
    for elements in ELEMENTS:
        batches = _batches(elements, BATCH, seed)
        for name, seconds in _best(list(POLICIES), 1, batches, ROUNDS).items():
            times[name].append(seconds)
    by_batch: dict[str, list[float]] = {name: [] for name in POLICIES}
    for size in BATCHES:
        for name, seconds in _best(list(POLICIES), 1, _batches(ELEMENTS[-1], size, seed), ROUNDS).items():
            by_batch[name].append(seconds)
    # Fitted over the sizes of a batch: seconds per batch that the queues of five operators add to DI.
    added = {name: _cost_of_queues(by_batch[name], by_batch[DI]) for name in (GTS, OTS)}
    turns = [size for size, ots, gts in zip(BATCHES, by_batch[OTS], by_batch[GTS], strict=True) if ots < gts]
    return Outcome(
        name="hmts-modes",
        source="000 §6.4, Fig. 7",
        claim="a simple query is at least 40% faster without queues than with a thread for each operator, which in turn "
        "is faster than one thread for all",
        paper={OTS_DI: 1.4, GTS_OTS: None},
        measured={
            OTS_DI: _mean_ratio(times[OTS], times[DI]),
            GTS_OTS: _mean_ratio(times[GTS], times[OTS]),
            "GTS's time over DI's": _mean_ratio(times[GTS], times[DI]),
            "OTS is faster than GTS from batches of": min(turns, default=None),
            "OTS's time over GTS's, by size of a batch": {
                str(size): ots / gts for size, ots, gts in zip(BATCHES, by_batch[OTS], by_batch[GTS], strict=True)
            },
            "queues of five operators, µs a batch": {name: seconds * 1e6 for name, seconds in added.items()},
        },
        rule=as_in_figure_7,
        setup={
            "seed": seed,
            "selectivities": list(SELECTIVITIES),
            "elements a batch": BATCH,
            "policies": POLICIES,
            "rounds": ROUNDS,
        },
        series=[
            *(
                Series(name, [float(e) for e in ELEMENTS], found, "time (s), by elements")
                for name, found in times.items()
            ),
            *(
                Series(n, [float(b) for b in BATCHES], found, "time (s), by batch size")
                for n, found in by_batch.items()
            ),
        ],
        axes=("elements, or elements a batch", ""),
        scales=("log", "linear"),
    )


OTS_DI, GTS_OTS = "OTS's time over DI's", "GTS's time over OTS's"


def as_in_figure_7(paper: Figures, measured: Figures) -> bool:
    """§6.4: "OTS is significantly faster than GTS due to its efficient use of the multicore environment. However, DI is
    even without parallelism still 40 % faster than OTS"."""
    return bool(measured[OTS_DI] >= paper[OTS_DI] and measured[GTS_OTS] > 1)


def scale(seed: int) -> Outcome:
    """Fig. 8: DI and OTS by number of queries."""
    batches = _batches(SCALE_ELEMENTS, SCALE_BATCH, seed)
    names = (DI, OTS)
    times: dict[str, list[float]] = {name: [] for name in names}
    for queries in QUERIES:
        for name, seconds in _best(names, queries, batches, ROUNDS if queries < 20 else 1).items():
            times[name].append(seconds)
    ratios = [ots / di for ots, di in zip(times[OTS], times[DI], strict=True)]
    return Outcome(
        name="hmts-scale",
        source="000 §6.5, Fig. 8",
        claim="DI's advantage over a thread per operator is not constant but grows with the number of queries",
        paper={RATIOS: None},
        measured={
            RATIOS: dict(zip(map(str, QUERIES), ratios, strict=True)),
            "seconds saved": {str(q): o - d for q, o, d in zip(QUERIES, times[OTS], times[DI], strict=True)},
        },
        rule=advantage_grows,
        setup={
            "seed": seed,
            "elements": SCALE_ELEMENTS,
            "elements a batch": SCALE_BATCH,
            "selectivities": list(SELECTIVITIES),
            "queries": list(QUERIES),
            "threads under OTS": "one per operator, five per query",
        },
        series=[Series(name, [float(q) for q in QUERIES], seconds_by_size) for name, seconds_by_size in times.items()],
        axes=("queries", "time (s)"),
    )


RATIOS = "OTS's time over DI's, by number of queries"


def advantage_grows(paper: Figures, measured: Figures) -> bool:
    """§6.5: "DI's performance advantage over OTS is not constant, but increases with number of queries": the ratio of
    the times at 200 queries is above that at one by more than it varies, and no step loses more than it varies."""
    ratios = list(measured[RATIOS].values())
    steady = all(later >= before * (1 - SPREAD) for before, later in zip(ratios, ratios[1:], strict=False))
    return bool(ratios[-1] > ratios[0] * (1 + SPREAD) and steady)


def _cost_of_queues(queued: Sequence[float], direct: Sequence[float]) -> float:
    """Seconds per batch by which a policy is slower than DI, by least squares over the number of batches."""
    count = np.array([ELEMENTS[-1] / size for size in BATCHES])
    more = np.array(queued) - np.array(direct)
    return float(np.polyfit(count, more, 1)[0])


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
    network = Network(_graph(queries), policy, limits=Limits(stuck=600.0))
    network.push("source", batches[0].slice(0, 1))
    network.run()
    for batch in batches:
        network.push("source", batch)
    began = time.perf_counter()
    network.run()
    seconds = time.perf_counter() - began
    network.close()
    return seconds


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

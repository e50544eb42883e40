"""Workload A of 004 as SQL, and batches for its streams: for runs with real operators."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.graph.shared import SharedGraph
from headgate.graph.types import TIMESTAMP
from headgate.papers import cqc
from headgate.sql import Catalog

ROWS = 4000
KEYS = 4000
GROUPS = 100
VARIANTS = 8
"""Number of different batches; streams repeat them with new event times."""

STREAM = (
    "CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts) USING json OPTIONS (path 'in');"
)
SELECTION = "SELECT ts, k, v FROM {name} WHERE v < {share}"
AGGREGATE = (
    "SELECT window(ts, '1 second') AS w, k % {groups} AS g, count(*) AS n, avg(v) AS mean FROM {name} "
    "GROUP BY window(ts, '1 second'), k % {groups}"
)
JOIN = (
    "SELECT l.k, l.v, r.v AS u FROM {name}_l AS l JOIN {name}_r AS r ON l.k = r.k "
    "AND r.ts BETWEEN l.ts - INTERVAL 100 MILLISECONDS AND l.ts + INTERVAL 100 MILLISECONDS"
)


Groups = list[tuple[str, ...]]
"""Streams whose batches arrive together: single streams, or both sides of a join."""


def catalog() -> tuple[Catalog, Groups]:
    """A catalog with the classes and streams of the workload."""
    declared = Catalog(time_zone="UTC")
    for cls, priority in cqc.A.priorities.items():
        declared.execute(f"CREATE CLASS {cls} WITH (priority = {priority:.0f});")
    groups: Groups = [
        *((f"s{number}",) for number in range(len(cqc.A.selections))),
        *((f"a{number}",) for number in range(len(cqc.A.aggregates))),
        *((f"j{number}_l", f"j{number}_r") for number in range(len(cqc.A.joins))),
    ]
    for stream in (name for group in groups for name in group):
        declared.execute(STREAM.format(name=stream))
    return declared, groups


def queries(replicas: int = 1, replica: int = 0) -> tuple[SharedGraph, Groups]:
    """The graph of the 21 queries, or of those of one replica (whole queries in turn), and groups of their streams."""
    declared, groups = catalog()
    graph = SharedGraph()
    kinds = (("s", "selection", cqc.A.selections), ("a", "aggregate", cqc.A.aggregates), ("j", "join", cqc.A.joins))
    kept: set[str] = set()
    for letter, kind, classes in kinds:
        for number, cls in enumerate(classes):
            if number % replicas != replica:
                continue
            name = f"{letter}{number}"
            sql = {"s": SELECTION, "a": AGGREGATE, "j": JOIN}[letter]
            text = sql.format(name=name, share=cqc.selectivity(number) if letter == "s" else 1.0, groups=GROUPS)
            graph.add(declared.query(f"{kind}_{number}", text, cls=cls))
            kept |= {name, f"{name}_l", f"{name}_r"}
    return graph, [group for group in groups if group[0] in kept]


class BatchFeed:
    """Generates the batches of the streams; each covers the second of event time after the previous one."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self._columns = [
            (pa.array(random.integers(0, KEYS, ROWS)), pa.array(random.random(ROWS))) for _ in range(VARIANTS)
        ]
        self._offsets = np.sort(random.integers(0, 1_000_000, ROWS))
        self._made: dict[str, int] = {}

    def batch(self, stream: str) -> pa.RecordBatch:
        number = self._made[stream] = self._made.get(stream, 0) + 1
        times = pa.array(self._offsets + number * 1_000_000).cast(TIMESTAMP)
        keys, values = self._columns[number % len(self._columns)]
        return pa.RecordBatch.from_arrays([times, keys, values], names=["ts", "k", "v"])

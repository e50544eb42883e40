"""The 21 queries of 004 (Table 2, workload A) over 27 streams: 6 selections, 9 window aggregates, 6 joins."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headgate.bench.plain import Latencies
from headgate.connectors import callback
from headgate.engine import Engine
from headgate.graph.queries import Sink

CLASSES = {"critical": 6, "standard": 3, "report": 1}
_SELECTIVITIES = (0.25, 0.5, 0.75, 1.0, 0.4, 0.6)


@dataclass(frozen=True)
class Workload:
    """Queries, their classes, and the streams they read."""

    queries: dict[str, str]
    classes: dict[str, str]
    streams: list[str]

    def members(self, cls: str) -> list[str]:
        return [name for name, of in self.classes.items() if of == cls]


def workload_21() -> Workload:
    """Seven queries per class: two selections, three aggregates, two joins. Each stream is read by one query."""
    queries: dict[str, str] = {}
    classes: dict[str, str] = {}
    streams: list[str] = []

    def stream() -> str:
        streams.append(f"s{len(streams)}")
        return streams[-1]

    names = list(CLASSES)
    for number in range(6):
        limit = int(40 * (1 - _SELECTIVITIES[number]))
        name = f"select_{number}"
        queries[name] = f"SELECT ts, location, temperature, arrived FROM {stream()} WHERE temperature >= {limit}"
        classes[name] = names[number % 3]
    for number in range(9):
        name = f"aggregate_{number}"
        queries[name] = (
            f"SELECT window(ts, '1 second') AS w, location, avg(temperature) AS t, max(arrived) AS arrived"
            f" FROM {stream()} GROUP BY window(ts, '1 second'), location"
        )
        classes[name] = names[number % 3]
    for number in range(6):
        left, right = stream(), stream()
        name = f"join_{number}"
        queries[name] = (
            f"SELECT a.ts, a.location, a.temperature, b.humidity, greatest(a.arrived, b.arrived) AS arrived"
            f" FROM {left} a JOIN {right} b ON a.location = b.location AND a.temperature = b.temperature"
            f" AND b.ts BETWEEN a.ts - INTERVAL 100 MILLISECONDS AND a.ts + INTERVAL 100 MILLISECONDS"
        )
        classes[name] = names[number % 3]
    return Workload(queries, classes, streams)


def declarations(streams: list[str], folder: str, delay: float = 1.0, options: str = "") -> str:
    """CREATE STREAM statements for the folders that `FeedProcess` fills."""
    more = f", {options}" if options else ""
    return "\n".join(
        f"CREATE STREAM {stream} (ts TIMESTAMP, location STRING, temperature INT, humidity INT, arrived DOUBLE,"
        f" WATERMARK FOR ts AS ts - INTERVAL {int(delay * 1000)} MILLISECONDS)"
        f" USING parquet OPTIONS (path '{folder}/{stream}'{more});"
        for stream in streams
    )


def declare(engine: Engine, work: Workload, folder: str, latencies: Latencies) -> None:
    """Declares the classes, streams and queries; latencies are taken when results are published."""
    engine.execute("".join(f"CREATE CLASS {name} WITH (priority = {rank});" for name, rank in CLASSES.items()))
    engine.execute(declarations(work.streams, folder))
    for name, select in work.queries.items():
        engine.query(name, select, cls=work.classes[name], sink=timed(name, latencies))


def timed(name: str, latencies: Latencies) -> Sink:
    """A sink that records the age of the rows behind each result."""

    def take(table: pa.Table) -> None:
        latencies.add(name, table.column("arrived"))

    return callback(take)

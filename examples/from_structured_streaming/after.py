"""After: the same three queries with Headgate, in one job, the alerts first. See before.py.

    python examples/from_structured_streaming/after.py [SECONDS]

What changed: the streaming DataFrame is given to the engine instead of to a view, each SELECT is registered with a
class, and the engine starts them all. The SELECTs are the same, and so are their answers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

import pyarrow as pa
from before import QUERIES

import headgate as hg
from headgate.feeder import Feeder, FolderTarget, workload

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
ages: dict[str, list[float]] = {}


def sink(name: str) -> Any:
    def take(rows: pa.Table) -> None:
        ages.setdefault(name, []).extend(time.time() - ts.timestamp() for ts in rows["ts"].to_pylist())

    return hg.callback(take)


def settle(engine: hg.Engine, limit: float = 60.0) -> None:
    """Waits until there are answers and no more come."""
    until = time.monotonic() + limit
    before = 0
    while time.monotonic() < until:
        engine.wait(2.0)
        answers = sum(query["published"] for query in engine.metrics()["queries"].values())
        if answers and answers == before:
            return
        before = answers


def main() -> None:
    folder = tempfile.mkdtemp(prefix="after-")
    os.makedirs(f"{folder}/sensors")
    engine = hg.Engine(policy="cqc")
    schema = "ts TIMESTAMP, location STRING, temperature INT, humidity INT, smoke DOUBLE"
    sensors = engine.spark.readStream.schema(schema).parquet(f"{folder}/sensors")
    engine.stream("sensors", sensors.withWatermark("ts", "200 milliseconds"))
    engine.execute("CREATE CLASS critical WITH (priority = 6); CREATE CLASS report WITH (priority = 1);")
    for name, select in QUERIES.items():
        engine.query(name, select, cls="report" if name == "climate" else "critical", sink=sink(name))
    engine.start()
    Feeder(FolderTarget(folder), workload("sensors", rate=2000.0, seed=5), seed=5, seconds=SECONDS).run()
    settle(engine)
    engine.stop()
    for name in QUERIES:
        values = ages.get(name, [])
        print(f"{name}: {len(values):,} answers, mean age {sum(values) / max(len(values), 1):.2f} s")


if __name__ == "__main__":
    main()

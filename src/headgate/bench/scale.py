"""Throughput of two replicas and of one where the network is the bottleneck; cost of the shuffle; balance.

Throughput is counted from the first trigger: starting an engine takes the same time with any number of rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.bench.feed import rows, write
from headgate.bench.processor_time import ProcessorTime
from headgate.bench.workload import declarations, workload_21
from headgate.engine import Engine
from headgate.outcome import Outcome, at_least
from headgate.spark.session import local_session

ROUNDS = 3
"""Runs of each side; the first is a warm-up, and the fastest of the others counts."""
REPLICAS = (1, 2)
GOAL = 1.6
LIGHT = "light_21"
"""The load whose bottleneck is Spark's reading, 27 folders for 21 cheap queries. Nothing is claimed of it."""
BATCHES = 4
"""Micro-batches of a run."""
REPORTED = 30.0
"""Seconds within which Spark must have reported a trigger that has ended."""
FUNCTION = "CREATE FUNCTION slow_risk(t INT, h INT) RETURNS DOUBLE AS 'headgate.bench.scale:risk';"


@dataclass(frozen=True)
class ScaleLoad:
    """Queries, the streams that they read, the rows of each stream, and the declarations that they need."""

    queries: Mapping[str, str]
    streams: tuple[str, ...]
    rows: int
    statements: str = ""


def risk(temperature: pa.Array, humidity: pa.Array) -> pa.Array:
    """A user's function that computes row by row, in Python: simulates how fuel dries in a day."""
    found: list[float] = []
    for t, h in zip(temperature.to_pylist(), humidity.to_pylist(), strict=True):
        moisture = h / 100
        for _ in range(240):
            moisture -= 0.001 * t * moisture * (1.0 - moisture)
        found.append(max(0.0, (t - 20) / 20) * (1.0 - moisture) ** 0.5)
    return pa.array(found, pa.float64())


def aggregates(count: int) -> dict[str, str]:
    """Windowed aggregates of rows that pass five predicates, no two alike."""
    return {
        f"q{n}": "SELECT window(ts, '1 second') AS w, location, count(*) AS n, avg(temperature) AS t,"
        f" max(humidity) AS h FROM s0 WHERE temperature > {n % 11} AND humidity > {n % 13} AND humidity < {87 + n % 17}"
        f" AND location <> 'location-{n % 20:03d}' GROUP BY window(ts, '1 second'), location"
        for n in range(count)
    }


def mixed() -> dict[str, str]:
    """Selections, sliding aggregates and joins in the proportions of 004's 21 queries, but over three streams: a row is
    read once and processed by seven queries or more."""
    window = "window(ts, '1 second', '200 milliseconds')"
    found: dict[str, str] = {}
    for n in range(6):
        found[f"select_{n}"] = f"SELECT ts, location, temperature FROM s{n % 3} WHERE temperature >= {10 + 3 * n}"
    for n in range(9):
        found[f"aggregate_{n}"] = (
            f"SELECT {window} AS w, location, humidity, avg(temperature) AS t, stddev(arrived) AS d, max(arrived) AS m"
            f" FROM s{n % 3} WHERE temperature > {n} GROUP BY {window}, location, humidity"
        )
    for n in range(6):
        found[f"join_{n}"] = (
            f"SELECT a.ts, a.location, a.temperature, b.humidity FROM s{n % 3} a JOIN s{(n + 1) % 3} b"
            " ON a.location = b.location AND a.temperature = b.temperature AND a.humidity = b.humidity"
            f" AND b.ts BETWEEN a.ts - INTERVAL {100 + n} MILLISECONDS AND a.ts + INTERVAL 100 MILLISECONDS"
        )
    return found


def loads(share: float = 1.0) -> dict[str, ScaleLoad]:
    """The loads to measure, with a `share` of their rows."""

    def some(count: int) -> int:
        return max(BATCHES, int(count * share))

    work = workload_21()
    window = "window(ts, '1 second', '100 milliseconds')"
    return {
        "queries_200": ScaleLoad(aggregates(200), ("s0",), some(1_600_000)),
        "keyed_aggregate": ScaleLoad(
            {
                "heavy": f"SELECT {window} AS w, location, temperature, humidity, count(*) AS n, avg(arrived) AS a,"
                " stddev(arrived) AS d, min(arrived) AS low, max(arrived) AS high"
                f" FROM s0 GROUP BY {window}, location, temperature, humidity"
            },
            ("s0",),
            some(1_600_000),
        ),
        "mixed_21": ScaleLoad(mixed(), ("s0", "s1", "s2"), some(800_000)),
        LIGHT: ScaleLoad(work.queries, tuple(work.streams), some(50_000)),
        "function": ScaleLoad(
            {"risky": "SELECT ts, location, slow_risk(temperature, humidity) AS r FROM s0 WHERE humidity > 5"},
            ("s0",),
            some(800_000),
            FUNCTION,
        ),
    }


def run(only: str = "") -> Outcome:
    """The same files with one and with two replicas, read to their end in micro-batches. `only`: names of loads,
    separated by commas; by default all."""
    known = loads()
    names = [name.strip() for name in only.split(",")] if only else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no load is called {unknown[0]}; the loads are {', '.join(known)}")
    return measure({name: known[name] for name in names}, ROUNDS)


def measure(chosen: Mapping[str, ScaleLoad], rounds: int) -> Outcome:
    """Measures each load under every number of replicas."""
    measured: dict[str, Any] = {}
    spark = local_session("headgate-bench-scale")
    try:
        for name, load in chosen.items():
            folder = _files(load)
            try:
                for replicas in REPLICAS:
                    found = [_run(spark, load, folder, replicas) for _ in range(rounds)][1:]
                    seconds, busy = min(found)
                    measured[f"{name}_rows_per_s_{replicas}"] = load.rows * len(load.streams) / seconds
                    if replicas == 1:
                        measured[f"{name}_network_share"] = sum(busy) / seconds
                    else:
                        measured[f"{name}_balance"] = max(busy) * len(busy) / sum(busy)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            measured[f"{name}_speedup"] = measured[f"{name}_rows_per_s_2"] / measured[f"{name}_rows_per_s_1"]
        measured |= _shuffle(spark, next(iter(chosen.values())).rows, rounds)
    finally:
        spark.stop()
    return Outcome(
        "scale",
        "peer: the same engine with one replica",
        "two replicas on two cores have at least 1.6 times the throughput of one, where the network is the bottleneck",
        {f"{name}_speedup": GOAL for name in chosen if name != LIGHT},
        measured,
        at_least,
        {
            "rounds": rounds,
            "batches": BATCHES,
            "rows": {name: load.rows * len(load.streams) for name, load in chosen.items()},
            "seconds": "from the first trigger to the end of the last",
            "network_share": "busy seconds of the network with one replica, as a share of the run: the bottleneck",
            "balance": "busy seconds of the busiest replica, as a multiple of the mean",
            "shuffle": "a cheap aggregate: processor time a row with two replicas less that with one (in local mode the"
            " tasks divide the rows, without Spark's shuffle)",
        },
    )


def _shuffle(spark: Any, count: int, rounds: int) -> dict[str, float]:
    """The added processor time per row, in all processes, if rows are divided between two replicas."""
    load = ScaleLoad({"counts": "SELECT location, count(*) AS n FROM s0 GROUP BY location"}, ("s0",), count)
    folder = _files(load)
    spent: dict[int, float] = {}
    try:
        for replicas in REPLICAS:
            _run(spark, load, folder, replicas)
            used = ProcessorTime()
            for _ in range(rounds - 1):
                _run(spark, load, folder, replicas)
            spent[replicas] = used.end() / (rounds - 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"shuffle_cpu_us_per_row": (spent[2] - spent[1]) / count * 1e6}


@contextmanager
def first_trigger(spark: Any) -> Iterator[Callable[[], float]]:
    """Gives a function that returns when the first trigger with rows began (s since 1970), once Spark reports it."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    reported = threading.Event()
    began: list[float] = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802

        def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            if event.progress.numInputRows and not began:
                began.append(datetime.fromisoformat(event.progress.timestamp).timestamp())
                reported.set()

    def moment() -> float:
        if not reported.wait(REPORTED):
            raise RuntimeError("Spark has reported no trigger with rows")
        return began[0]

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        yield moment
    finally:
        spark.streams.removeListener(listener)


def _files(load: ScaleLoad) -> str:
    folder = tempfile.mkdtemp(prefix="headgate-bench-")
    random = np.random.default_rng(5)
    for stream in load.streams:
        os.makedirs(f"{folder}/{stream}")
        for number in range(BATCHES * 2):
            write(f"{folder}/{stream}", number, rows(load.rows // (BATCHES * 2), random, 1_700_000_000.0 + number))
    return folder


def _run(spark: Any, load: ScaleLoad, folder: str, replicas: int) -> tuple[float, list[float]]:
    """Seconds from the first trigger until all rows are processed, and the busy seconds of each replica."""
    engine = Engine("cqc", spark=spark, budget=None, replicas=replicas, trigger_cores=None)
    # All streams are read as one source.
    engine.execute(declarations(list(load.streams), folder, 1.0, f"maxFilesPerTrigger '{2 * len(load.streams)}'"))
    if load.statements:
        engine.execute(load.statements)
    for name, select in load.queries.items():
        engine.query(name, select)
    with first_trigger(spark) as began:
        engine.run_once()
        seconds = time.time() - began()
    metrics = engine.metrics()
    parts = metrics["replicas"] if replicas > 1 else [metrics["scheduling"]]
    return seconds, [part["seconds"] for part in parts]

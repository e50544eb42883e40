"""Duration of an epoch and its parts, compared with a trigger of a plain streaming query with Spark's defaults."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.bench.feed import SCHEMA, rows, write
from headgate.bench.workload import declarations
from headgate.engine import Engine
from headgate.outcome import Outcome, at_most
from headgate.spark.session import local_session, untuned_session

ROWS = 10_000
ROUNDS = 25
WARM = 8


def run() -> Outcome:
    """The same files, one at a time, for a plain selection and for an engine with the same selection."""
    plain = _plain()
    bare = _bare()
    small, parts_small = _headgate(1)
    large, parts = _headgate(ROWS)
    measured: dict[str, Any] = {
        "plain_trigger_s": plain,
        "bare_trigger_s": bare,
        "epoch_nearly_empty_s": small,
        "epoch_10000_rows_s": large,
        "epoch_to_plain": large / plain,
        "epoch_to_bare": large / bare,
        **{f"part_{name}_s": value for name, value in parts.items()},
        **{f"part_{name}_nearly_empty_s": value for name, value in parts_small.items()},
    }
    return Outcome(
        "epoch",
        "peer: one Structured Streaming query, Spark's defaults",
        "an epoch of 10,000 rows takes at most 0.4 of the time of a plain trigger",
        {"epoch_to_plain": 0.4},
        measured,
        at_most,
        {"rows": ROWS, "rounds": ROUNDS, "warm": WARM},
    )


def _plain() -> float:
    """The median time of a trigger with 10,000 new rows."""
    return _trigger(untuned_session("headgate-bench-plain"), lambda read: read.where("temperature > 35"))


def _bare() -> float:
    """The same with our session settings and a function that only counts rows: Spark's own share of an epoch."""
    return _trigger(
        local_session("headgate-bench-bare"), lambda read: read.coalesce(1).mapInArrow(_count, "answer long")
    )


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counted = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_arrays([pa.array([counted])], names=["answer"])


def _trigger(spark: Any, make: Callable[[Any], Any]) -> float:
    folder = tempfile.mkdtemp(prefix="headgate-bench-")
    random = np.random.default_rng(1)
    try:
        write(folder, 0, rows(10, random, time.time()))
        frame = make(spark.readStream.schema(SCHEMA).parquet(folder))
        query = frame.writeStream.foreachBatch(lambda output, batch: output.toArrow() and None)
        running = query.option("checkpointLocation", f"{folder}/.checkpoint").start()
        times: list[float] = []
        for number in range(1, WARM + ROUNDS):
            write(folder, number, rows(ROWS, random, time.time()))
            running.processAllAvailable()
            times.append(running.lastProgress["durationMs"]["triggerExecution"] / 1000)
        running.stop()
        return statistics.median(times[WARM:])
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _headgate(count: int) -> tuple[float, dict[str, float]]:
    """The median time of a trigger with `count` new rows, and of the parts of its epoch."""
    spark = local_session("headgate-bench-epoch")
    folder = tempfile.mkdtemp(prefix="headgate-bench-")
    random = np.random.default_rng(1)
    engine = Engine("cqc", spark=spark, trigger_cores=None)
    try:
        os.makedirs(f"{folder}/s0")
        write(f"{folder}/s0", 0, rows(10, random, time.time()))
        engine.execute(declarations(["s0"], folder))
        engine.query("hot", "SELECT * FROM s0 WHERE temperature > 35")
        engine.start()
        [running] = spark.streams.active
        times: list[float] = []
        parts: dict[str, list[float]] = {}
        for number in range(1, WARM + ROUNDS):
            write(f"{folder}/s0", number, rows(count, random, time.time()))
            running.processAllAvailable()
            times.append(running.lastProgress["durationMs"]["triggerExecution"] / 1000)
            for name, seconds in engine.metrics()["epoch_seconds"].items():
                parts.setdefault(name, []).append(seconds)
        return statistics.median(times[WARM:]), {name: statistics.median(v[WARM:]) for name, v in parts.items()}
    finally:
        engine.stop()
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)

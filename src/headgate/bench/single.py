"""A single query: the cost of Headgate where there is nothing to schedule."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from headgate.bench.feed import SCHEMA, FeedProcess, rows, write
from headgate.bench.plain import ComparedSystem, Latencies, Plain, running
from headgate.bench.workload import declarations, timed
from headgate.engine import Engine
from headgate.outcome import Figures, Outcome
from headgate.spark.session import local_session, untuned_session

QUERIES = {
    "selection": "SELECT ts, location, temperature, arrived FROM s0 WHERE temperature > 30",
    "aggregate": "SELECT window(ts, '100 milliseconds') AS w, location, avg(temperature) AS t, max(arrived) AS arrived"
    " FROM s0 GROUP BY window(ts, '100 milliseconds'), location",
}
RATE = 5000.0
EVERY = 0.5
"""Seconds between files. On either side the result of a window waits for the next file and its watermark."""
DELAY = 0.1
WARM, MEASURED = 15.0, 25.0
BULK = 4_000_000
FILES = 40
ROUNDS = 3

SIDES: dict[str, Callable[[str], Any]] = {
    "plain": untuned_session,
    "plain_tuned": local_session,
    "headgate": local_session,
}


def run() -> list[Outcome]:
    """Latency at a constant rate, and throughput for four million rows that are available at the start."""
    measured: dict[str, dict[str, Any]] = {name: {} for name in QUERIES}
    folder = _bulk()
    try:
        for side, session in SIDES.items():
            spark = session(f"headgate-bench-{side}")
            try:
                for name, select in QUERIES.items():
                    mean, p99, count = _latency(spark, side, name, select)
                    # The first round is a warm-up.
                    seconds = min([_throughput(spark, side, select, folder) for _ in range(ROUNDS)][1:])
                    measured[name] |= {
                        f"{side}_latency_s": mean,
                        f"{side}_p99_s": p99,
                        f"{side}_results": count,
                        f"{side}_rows_per_s": BULK / seconds,
                    }
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [_outcome(name, figures) for name, figures in measured.items()]


def _outcome(name: str, measured: dict[str, Any]) -> Outcome:
    for peer, ending in (("plain_tuned", ""), ("plain", "_to_defaults")):
        measured[f"latency_ratio{ending}"] = measured["headgate_latency_s"] / measured[f"{peer}_latency_s"]
        measured[f"throughput_ratio{ending}"] = measured["headgate_rows_per_s"] / measured[f"{peer}_rows_per_s"]
    return Outcome(
        f"single-{name}",
        "peer: the same query in Structured Streaming with all settings of Headgate's session (plain: with Spark's"
        " defaults and two shuffle partitions)",
        "a single query has at most plain's latency and at least 0.6 of plain's throughput, with the same settings",
        {"latency_ratio": 1.0, "throughput_ratio": 0.6},
        measured,
        _rule,
        {"rate": RATE, "file_every_s": EVERY, "delay_s": DELAY, "rows": BULK, "files": FILES, "measured_s": MEASURED},
    )


def _rule(goal: Figures, measured: Figures) -> bool:
    return bool(
        measured["latency_ratio"] <= goal["latency_ratio"] and measured["throughput_ratio"] >= goal["throughput_ratio"]
    )


def _latency(spark: Any, side: str, name: str, select: str) -> tuple[float, float, int]:
    latencies = Latencies()
    feed = FeedProcess(["s0"], RATE, EVERY)
    runner: ComparedSystem
    if side == "headgate":
        runner = Engine("cqc", spark=spark, trigger_cores=None)
        runner.execute(declarations(["s0"], feed.folder, DELAY))
        runner.query(name, select, sink=timed(name, latencies))
    else:
        runner = Plain(spark, {name: select}, ["s0"], feed.folder, latencies, delay=DELAY)
    with running(runner, feed):
        latencies.since = time.time() + WARM
        runner.wait(WARM + MEASURED)
    return latencies.of([name])


def _bulk() -> str:
    folder = tempfile.mkdtemp(prefix="headgate-bench-")
    os.makedirs(f"{folder}/s0")
    random = np.random.default_rng(3)
    for number in range(FILES):
        write(f"{folder}/s0", number, rows(BULK // FILES, random, 1_700_000_000.0 + number))
    return folder


def _throughput(spark: Any, side: str, select: str, folder: str) -> float:
    """Seconds for all rows of the folder, in micro-batches of eight files."""
    checkpoint = tempfile.mkdtemp(prefix="headgate-bench-")
    began = time.perf_counter()
    if side == "headgate":
        engine = Engine("cqc", spark=spark, budget=None)
        engine.execute(declarations(["s0"], folder, DELAY, "maxFilesPerTrigger '8'"))
        engine.query("q", select)
        engine.run_once()
    else:
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "8").parquet(f"{folder}/s0")
        frame.withWatermark("ts", f"{DELAY} seconds").createOrReplaceTempView("s0")
        writer = spark.sql(select).writeStream.foreachBatch(lambda output, batch: output.toArrow() and None)
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    seconds = time.perf_counter() - began
    shutil.rmtree(checkpoint, ignore_errors=True)
    return seconds

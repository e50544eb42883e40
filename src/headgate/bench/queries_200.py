"""200 selection queries over one stream: processor time per row and query, and latency."""

from __future__ import annotations

import time
from typing import Any

from headgate.bench.feed import FeedProcess
from headgate.bench.plain import ComparedSystem, Latencies, Plain, running
from headgate.bench.processor_time import ProcessorTime
from headgate.bench.workload import declarations, timed
from headgate.engine import Engine
from headgate.outcome import Outcome, at_least
from headgate.spark.session import local_session

RATE = 2000.0
WARM, MEASURED = 40.0, 40.0
PLAIN, OURS = 50, 200
EVERY = 4.0
"""Trigger interval of Headgate if rows may wait: with 50 queries plain has a far higher latency."""


def run() -> Outcome:
    """Compares costs per row and query. Plain runs 50 queries, since a small machine cannot run 200.

    At 50 queries plain Structured Streaming is saturated: its triggers wait for each other and take more rows each,
    which lowers its cost per row. Headgate runs once with the lowest latency and once with rows that may wait.
    """
    measured: dict[str, Any] = {}
    for side, count, every in (("plain", PLAIN, 0.0), ("headgate_at_once", OURS, 0.0), ("headgate", OURS, EVERY)):
        spark = local_session(f"headgate-bench-{side}")
        try:
            seconds, rows, latency = _side(spark, side, selections(count), every)
        finally:
            spark.stop()
        measured[f"{side}_cpu_s_per_million_row_queries"] = seconds / (rows * count) * 1e6
        measured[f"{side}_latency_s"] = latency[0]
        measured[f"{side}_p99_s"] = latency[1]
        measured[f"{side}_queries"] = count
    for side, name in (("headgate", "times_less_cpu"), ("headgate_at_once", "times_less_cpu_at_once")):
        cost = measured[f"{side}_cpu_s_per_million_row_queries"]
        measured[name] = measured["plain_cpu_s_per_million_row_queries"] / cost
    measured["times_sooner"] = measured["plain_latency_s"] / measured["headgate_latency_s"]
    return Outcome(
        "queries-200",
        "peer: Structured Streaming with 50 of the 200 queries; costs are per row and query",
        "200 selection queries need at most 1/100 of plain's processor time per row and query where"
        " rows may wait, with lower latency, and 1/25 at once",
        {"times_less_cpu": 100.0, "times_less_cpu_at_once": 25.0, "times_sooner": 1.0},
        measured,
        at_least,
        {"rate": RATE, "measured_s": MEASURED, "predicates": 5, "headgate_every_s": EVERY},
    )


def selections(count: int) -> dict[str, str]:
    """Alerts with five predicates, no two alike, each true for about one row in thirty."""
    return {
        f"q{n}": "SELECT ts, location, temperature, arrived FROM s0"
        f" WHERE temperature > {28 + n % 7} AND humidity < {15 + n % 17} AND humidity > {n % 13}"
        f" AND location <> 'location-{n % 20:03d}' AND temperature <= {37 + n % 4}"
        for n in range(count)
    }


def _side(
    spark: Any, side: str, queries: dict[str, str], every: float
) -> tuple[float, float, tuple[float, float, int]]:
    """Processor seconds of Spark and its workers, number of rows that arrived, and latency."""
    latencies = Latencies()
    feed = FeedProcess(["s0"], RATE)
    runner: ComparedSystem
    if side == "plain":
        runner = Plain(spark, queries, ["s0"], feed.folder, latencies)
    else:
        runner = Engine("cqc", spark=spark, every=every, trigger_cores=None)
        runner.execute(declarations(["s0"], feed.folder))
        for name, select in queries.items():
            runner.query(name, select, sink=timed(name, latencies))
    with running(runner, feed):
        time.sleep(WARM)
        latencies.since = time.time()
        used = ProcessorTime({feed.pid})
        time.sleep(MEASURED)
        spent = used.end()
    return spent, RATE * MEASURED, latencies.of(list(queries))

"""200 selection queries over one stream: processor time per row and query, and latency."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.bench.arrivals import FolderFeed
from headgate.bench.plain import Latencies, Plain
from headgate.bench.workload import declarations, timed
from headgate.engine import Engine
from headgate.outcome import Outcome
from headgate.spark.session import local_session

RATE = 2000.0
WARM, MEASURED = 40.0, 40.0
PLAIN, OURS = 50, 200
EVERY = 4.0
"""How often Headgate looks for rows where they may wait: plain answers far later than that with 50 queries."""


def run() -> Outcome:
    """Plain with 50 queries, since 200 do not get through on a small machine; its cost a row and query carries over.

    Plain is at the end of its forces then: its triggers wait for each other, take more rows each, and so cost less a
    row than they would on a larger machine. Headgate once as it answers soonest, and once with rows that may wait.
    """
    measured: dict[str, Any] = {}
    for side, count, every in (("plain", PLAIN, 0.0), ("headgate_at_once", OURS, 0.0), ("headgate", OURS, EVERY)):
        spark = local_session(f"headgate-bench-{side}")
        try:
            seconds, rows, latency = _side(spark, side, _queries(count), every)
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
        "peer: Structured Streaming with 50 of the 200 queries, cost a row and query carried over",
        "200 selection queries take at most a 50th of the processor time a row and query, and answer sooner than plain",
        {"times_less_cpu": 50.0, "times_sooner": 1.0},
        measured,
        lambda asked, found: bool(all(found[key] >= asked[key] for key in asked)),
        {"rate": RATE, "measured_s": MEASURED, "predicates": 5, "headgate_every_s": EVERY},
    )


def _queries(count: int) -> dict[str, str]:
    """Alerts of five predicates, no two alike, true for one row in thirty or so."""
    return {
        f"q{n}": "SELECT ts, location, temperature, arrived FROM s0"
        f" WHERE temperature > {28 + n % 7} AND humidity < {15 + n % 17} AND humidity > {n % 13}"
        f" AND location <> 'location-{n % 20:03d}' AND temperature <= {37 + n % 4}"
        for n in range(count)
    }


def _side(
    spark: Any, side: str, queries: dict[str, str], every: float
) -> tuple[float, float, tuple[float, float, int]]:
    """Processor seconds of Spark and its workers, rows that came meanwhile, and latency."""
    latencies = Latencies()
    arrivals = FolderFeed(["s0"], RATE)
    runner: Any
    if side == "plain":
        runner = Plain(spark, queries, arrivals.folder, latencies, False)
    else:
        runner = Engine("cqc", spark=spark, every=every)
        runner.execute(declarations(["s0"], arrivals.folder))
        for name, select in queries.items():
            runner.query(name, select, sink=timed(name, latencies))
    arrivals.start()
    try:
        runner.start(["s0"]) if side == "plain" else runner.start()
        time.sleep(WARM)
        latencies.since = time.time()
        before = _processor_seconds(os.getpid(), arrivals.pid)
        time.sleep(MEASURED)
        spent = _processor_seconds(os.getpid(), arrivals.pid) - before
    finally:
        arrivals.stop()
        runner.stop()
        arrivals.clean()
    return spent, RATE * MEASURED, latencies.of(list(queries))


def _processor_seconds(root: int, without: int) -> float:
    """What a process and all below it have used, but for one of them."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        # Also what its ended children used, so that a worker which ends meanwhile is not forgotten.
        used[int(entry.name)] = sum(map(int, fields[11:15])) / tick
    return sum(used[pid] for pid in _below(root, parents) if pid != without)


def _below(root: int, parents: dict[int, int]) -> Sequence[int]:
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found

"""200 selection queries over one stream: processor time per row and query, and latency."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.bench.arrivals import Arrivals
from headgate.bench.plain import Latencies, Plain
from headgate.bench.workload import declarations, timed
from headgate.engine import Engine
from headgate.outcome import Outcome
from headgate.spark.session import local_session

RATE = 2000.0
WARM, MEASURED = 20.0, 40.0
PLAIN, OURS = 50, 200


def run() -> Outcome:
    """Plain with 50 queries, since 200 do not get through on a small machine; its cost a row and query carries over."""
    measured: dict[str, Any] = {}
    for side, count in (("plain", PLAIN), ("headgate", OURS)):
        spark = local_session(f"headgate-bench-{side}")
        try:
            seconds, rows, latency = _side(spark, side, _queries(count))
        finally:
            spark.stop()
        measured[f"{side}_cpu_s_per_million_row_queries"] = seconds / (rows * count) * 1e6
        measured[f"{side}_latency_s"] = latency[0]
        measured[f"{side}_p99_s"] = latency[1]
        measured[f"{side}_queries"] = count
    measured["times_less_cpu"] = (
        measured["plain_cpu_s_per_million_row_queries"] / measured["headgate_cpu_s_per_million_row_queries"]
    )
    return Outcome(
        "queries-200",
        "peer: Structured Streaming with 50 of the 200 queries, cost a row and query carried over",
        "200 selection queries take at most a 50th of the processor time a row and query",
        {"times_less_cpu": 50.0},
        measured,
        lambda asked, found: bool(found["times_less_cpu"] >= asked["times_less_cpu"]),
        {"rate": RATE, "measured_s": MEASURED, "predicates": 5},
    )


def _queries(count: int) -> dict[str, str]:
    """Selections of five predicates, no two alike."""
    return {
        f"q{n}": "SELECT ts, location, temperature, arrived FROM s0"
        f" WHERE temperature > {n % 35} AND humidity < {40 + n % 60} AND humidity > {n % 13}"
        f" AND location <> 'location-{n % 20:03d}' AND temperature <= {36 + n % 5}"
        for n in range(count)
    }


def _side(spark: Any, side: str, queries: dict[str, str]) -> tuple[float, float, tuple[float, float, int]]:
    """Processor seconds of Spark and its workers, rows that came meanwhile, and latency."""
    latencies = Latencies()
    arrivals = Arrivals(["s0"], RATE)
    runner: Any
    if side == "plain":
        runner = Plain(spark, queries, arrivals.folder, latencies, False)
    else:
        runner = Engine("cqc", spark=spark)
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

"""21 queries in three classes over 27 streams: plain Structured Streaming (FIFO and FAIR) against Headgate."""

from __future__ import annotations

import time
from typing import Any

from headgate.bench.arrivals import FolderFeed
from headgate.bench.plain import Latencies, Plain
from headgate.bench.workload import CLASSES, Workload, declare, workload_21
from headgate.engine import Engine
from headgate.outcome import Figures, Outcome
from headgate.spark.session import local_session

RATE = 1500.0
WARM, MEASURED = 25.0, 60.0


def run() -> Outcome:
    """Both sides for a minute each, one after the other, on fresh folders fed alike."""
    work = workload_21()
    measured: dict[str, Any] = {}
    found: dict[str, Latencies] = {}
    for side in ("fifo", "fair", "headgate"):
        mode = {"spark.scheduler.mode": "FAIR"} if side == "fair" else {}
        spark = local_session(f"headgate-bench-{side}", mode)
        try:
            found[side] = _headgate(spark, work) if side == "headgate" else _plain(spark, work, side == "fair")
        finally:
            spark.stop()
        for cls in CLASSES:
            mean, p99, count = found[side].of(work.members(cls))
            measured[f"{side}_{cls}_mean_s"] = mean
            measured[f"{side}_{cls}_p99_s"] = p99
            measured[f"{side}_{cls}_results"] = count
    for cls in CLASSES:
        measured[f"{cls}_times_better"] = measured[f"fifo_{cls}_mean_s"] / measured[f"headgate_{cls}_mean_s"]
    return Outcome(
        "classes-21",
        "21 queries of 004 Table 2 over 27 streams; peer: Structured Streaming, one query each",
        "class critical is at least 30 times better than plain, and no class is worse than plain",
        {"critical_times_better": 30.0, "standard_times_better": 1.0, "report_times_better": 1.0},
        measured,
        _rule,
        {"rate": RATE, "streams": len(work.streams), "warm_s": WARM, "measured_s": MEASURED, "policy": "cqc"},
    )


def _rule(asked: Figures, measured: Figures) -> bool:
    return all(measured[key] >= asked[key] for key in asked)


def _plain(spark: Any, work: Workload, fair: bool) -> Latencies:
    latencies = Latencies()
    arrivals = FolderFeed(work.streams, RATE)
    plain = Plain(spark, work.queries, arrivals.folder, latencies, fair)
    arrivals.start()
    try:
        plain.start(work.streams)
        latencies.since = time.time() + WARM
        time.sleep(WARM + MEASURED)
    finally:
        arrivals.stop()
        plain.stop()
        arrivals.clean()
    return latencies


def _headgate(spark: Any, work: Workload) -> Latencies:
    latencies = Latencies()
    arrivals = FolderFeed(work.streams, RATE)
    engine = Engine("cqc", spark=spark, budget=0.5)
    declare(engine, work, arrivals.folder, latencies)
    arrivals.start()
    try:
        engine.start()
        latencies.since = time.time() + WARM
        engine.wait(WARM + MEASURED)
    finally:
        arrivals.stop()
        engine.stop()
        arrivals.clean()
    return latencies

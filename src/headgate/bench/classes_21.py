"""21 queries in three classes over 27 streams: Headgate compared with plain Structured Streaming (FIFO and FAIR)."""

from __future__ import annotations

import time
from typing import Any

from headgate.bench.feed import FeedProcess
from headgate.bench.plain import ComparedSystem, Latencies, Plain, running
from headgate.bench.workload import CLASSES, Workload, declare, workload_21
from headgate.engine import Engine
from headgate.outcome import Outcome, at_least
from headgate.spark.session import local_session

RATE = 1500.0
WARM, MEASURED = 25.0, 60.0


def run() -> Outcome:
    """All sides for a minute each, one after the other, with the same arrivals in new folders."""
    work = workload_21()
    measured: dict[str, Any] = {}
    for side in ("fifo", "fair", "headgate"):
        mode = {"spark.scheduler.mode": "FAIR"} if side == "fair" else {}
        spark = local_session(f"headgate-bench-{side}", mode)
        try:
            latencies = _run(spark, work, side)
        finally:
            spark.stop()
        for cls in CLASSES:
            mean, p99, count = latencies.of(work.members(cls))
            measured[f"{side}_{cls}_mean_s"] = mean
            measured[f"{side}_{cls}_p99_s"] = p99
            measured[f"{side}_{cls}_results"] = count
    for cls in CLASSES:
        measured[f"{cls}_times_better"] = measured[f"fifo_{cls}_mean_s"] / measured[f"headgate_{cls}_mean_s"]
    return Outcome(
        "classes-21",
        "21 queries of 004 Table 2 over 27 streams; peer: Structured Streaming, one query each",
        "class critical is at least 30 times faster than plain, and no class is slower than plain",
        {"critical_times_better": 30.0, "standard_times_better": 1.0, "report_times_better": 1.0},
        measured,
        at_least,
        {"rate": RATE, "streams": len(work.streams), "warm_s": WARM, "measured_s": MEASURED, "policy": "cqc"},
    )


def _run(spark: Any, work: Workload, side: str) -> Latencies:
    latencies = Latencies()
    feed = FeedProcess(work.streams, RATE)
    runner: ComparedSystem
    if side == "headgate":
        runner = Engine("cqc", spark=spark, budget=0.5)
        declare(runner, work, feed.folder, latencies)
    else:
        runner = Plain(spark, work.queries, work.streams, feed.folder, latencies, pools=side == "fair")
    with running(runner, feed):
        latencies.since = time.time() + WARM
        runner.wait(WARM + MEASURED)
    return latencies

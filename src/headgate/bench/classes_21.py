"""21 queries in three classes over 27 streams: Headgate compared with plain Structured Streaming (FIFO and FAIR)."""

from __future__ import annotations

import time
from typing import Any

from headgate.bench.feed import FeedProcess
from headgate.bench.plain import ComparedSystem, Latencies, Plain, running
from headgate.bench.processor_time import BusyShare
from headgate.bench.workload import CLASSES, Workload, declare, workload_21
from headgate.engine import Engine
from headgate.outcome import Outcome, at_least
from headgate.spark.session import local_session

RATE = 1500.0
WARM, MEASURED = 25.0, 60.0
RATES = (3_000.0, 6_000.0, 12_000.0, 24_000.0, 48_000.0)
"""Rows per second and stream for the second part, tried in this order until the machine is saturated."""
BUDGET = 0.5
BUSY, GROWTH = 0.9, 1.0
"""The machine is saturated if the processors are busy for this share of the time, and the rows of the lowest class,
which wait in their sources, are older by this much (s) at the end than at the beginning."""
REPLICAS = 2
"""Networks in the second part, one for each core: one network does not keep both busy."""


def run() -> list[Outcome]:
    """All sides at a rate that Headgate can keep up with, then Headgate alone at one that it cannot."""
    work = workload_21()
    return [_compared(work), _saturated(work)]


def _compared(work: Workload) -> Outcome:
    """All sides for a minute each, one after the other, with the same arrivals in new folders."""
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
        "class critical is at least 60 times faster than plain, and no class is slower than plain",
        {"critical_times_better": 60.0, "standard_times_better": 1.0, "report_times_better": 1.0},
        measured,
        at_least,
        {"rate": RATE, **_setup(work)},
    )


def _saturated(work: Workload) -> Outcome:
    """Raises the rate until the processors are busy and rows wait; compares the classes there."""
    spark = local_session("headgate-bench-saturated")
    measured: dict[str, Any] = {}
    try:
        for rate in RATES:
            measured = _at(spark, work, rate)
            if measured["busy_share"] >= BUSY and measured["report_growth_s"] >= GROWTH:
                break
    finally:
        spark.stop()
    return Outcome(
        "classes-21-saturated",
        "class critical compared with class report, same run",
        "where the processors are saturated and rows wait, class critical is at least twice as fast as class report",
        {"report_to_critical": 2.0, "busy_share": BUSY, "report_growth_s": GROWTH},
        measured,
        at_least,
        {"rates": RATES, "replicas": REPLICAS, **_setup(work)},
    )


def _setup(work: Workload) -> dict[str, Any]:
    """The setup of both parts; triggers are not limited, because those of plain are not limited either."""
    shared = {"warm_s": WARM, "measured_s": MEASURED, "policy": "cqc", "trigger_cores": None}
    return {"streams": len(work.streams), **shared}


def _at(spark: Any, work: Workload, rate: float) -> dict[str, Any]:
    latencies = Latencies()
    feed = FeedProcess(work.streams, rate)
    engine = Engine("cqc", spark=spark, budget=BUDGET, trigger_cores=None, replicas=REPLICAS)
    declare(engine, work, feed.folder, latencies)
    with running(engine, feed):
        engine.wait(WARM)
        latencies.since = time.time()
        busy = BusyShare()
        engine.wait(MEASURED)
        measured: dict[str, Any] = {"rate": rate, "busy_share": busy.so_far()}
    for cls in CLASSES:
        measured[f"{cls}_mean_s"], measured[f"{cls}_p99_s"], measured[f"{cls}_results"] = latencies.of(
            work.members(cls)
        )
    measured["report_growth_s"] = latencies.growth(work.members("report"))
    measured["report_to_critical"] = measured["report_mean_s"] / measured["critical_mean_s"]
    return measured


def _run(spark: Any, work: Workload, side: str) -> Latencies:
    latencies = Latencies()
    feed = FeedProcess(work.streams, RATE)
    runner: ComparedSystem
    if side == "headgate":
        runner = Engine("cqc", spark=spark, budget=BUDGET, trigger_cores=None)
        declare(runner, work, feed.folder, latencies)
    else:
        runner = Plain(spark, work.queries, work.streams, feed.folder, latencies, pools=side == "fair")
    with running(runner, feed):
        latencies.since = time.time() + WARM
        runner.wait(WARM + MEASURED)
    return latencies

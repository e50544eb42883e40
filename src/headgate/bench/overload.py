"""Latency of class critical while a costly function in class report needs 150% of the processors."""

from __future__ import annotations

import os
import time
from typing import Any

import pyarrow as pa

from headgate.bench.feed import FeedProcess
from headgate.bench.plain import Latencies, running
from headgate.bench.workload import declarations, timed
from headgate.engine import Engine
from headgate.outcome import Outcome, Series, at_most
from headgate.spark.session import local_session

WARM, MEASURED = 15.0, 40.0
RUNS = 5
LOAD = 1.5
CRITICAL = 7
BUDGET = 0.03
"""New rows wait for the running epoch, so the time that reports get in an epoch is short."""
MEMORY = 64 << 20
RATE = 3000.0


def run() -> Outcome:
    """Critical queries alone, then together with a report that overloads the machine; same rows, same duration, five
    times."""
    cost = seconds_per_step()
    # The number of steps per row that needs 150% of all cores.
    steps = max(1, round(LOAD * (os.cpu_count() or 1) / (RATE * cost)))
    spark = local_session("headgate-bench-overload")
    measured: dict[str, Any] = {}
    held = 0
    try:
        for number in range(1, RUNS + 1):
            alone, _, _ = _run(spark, 0)
            beside, backlog, memory = _run(spark, steps)
            measured |= {
                f"critical_alone_{number}_s": alone[0],
                f"critical_beside_overload_{number}_s": beside[0],
                f"critical_alone_{number}_p99_s": alone[1],
                f"critical_beside_overload_{number}_p99_s": beside[1],
                f"ratio_{number}": beside[0] / alone[0],
                f"backlog_rows_at_end_{number}": backlog[-1] if backlog else 0,
            }
            held = max(held, memory)
    finally:
        spark.stop()
    measured["largest_ratio"] = max(measured[f"ratio_{number}"] for number in range(1, RUNS + 1))
    measured["held_bytes_at_most"] = held
    return Outcome(
        "overload",
        "critical alone, in the same run",
        "while a report needs 150% of the processors, class critical has at most 1.3 times its latency alone, in each"
        " of five runs",
        {"largest_ratio": 1.3, "held_bytes_at_most": MEMORY * 1.1},
        measured,
        at_most,
        {
            "steps": steps,
            "seconds_per_step": cost,
            "rate": RATE,
            "budget_s": BUDGET,
            "runs": RUNS,
            "warm_s": WARM,
            "measured_s": MEASURED,
            "memory_limit": MEMORY,
        },
        [Series("rows waiting", list(range(len(backlog))), backlog)],
        ("second", "rows waiting"),
    )


def risk(temperature: pa.Array, humidity: pa.Array, steps: pa.Array) -> pa.Array:
    """Estimates how far a fire spreads, in a plain Python loop over rows and steps: the function of the report."""
    fronts: list[float | None] = []
    for heat, damp, count in zip(temperature.to_pylist(), humidity.to_pylist(), steps.to_pylist(), strict=True):
        front = 0.0
        for step in range(count):
            front += max(0.0, (step & 7) + heat / 45.0 - damp / 100.0) * 0.01 / (1.0 + front)
        fronts.append(front)
    return pa.array(fronts, pa.float64())


def seconds_per_step() -> float:
    """Cost of a step of `risk` on this machine."""
    column, steps = pa.array([20] * 50), pa.array([1000] * 50)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        risk(column, column, steps)
        best = min(best, time.perf_counter() - began)
    return best / 50_000


def _run(spark: Any, steps: int) -> tuple[tuple[float, float, int], list[float], int]:
    latencies = Latencies()
    feed = FeedProcess(["s0"], RATE)
    engine = Engine("cqc", spark=spark, budget=BUDGET, memory=MEMORY, trigger_cores=None)
    engine.execute("CREATE CLASS critical WITH (priority = 6); CREATE CLASS report WITH (priority = 1);")
    engine.execute(declarations(["s0"], feed.folder))
    engine.execute(
        "CREATE FUNCTION risk(temperature INT, humidity INT, steps INT) RETURNS DOUBLE"
        " AS 'headgate.bench.overload:risk';"
    )
    critical = [f"alert{n}" for n in range(CRITICAL)]
    for n, name in enumerate(critical):
        select = f"SELECT ts, location, temperature, arrived FROM s0 WHERE temperature > {30 + n} AND humidity < 50"
        engine.query(name, select, cls="critical", sink=timed(name, latencies))
    if steps:
        engine.query("report", f"SELECT location, risk(temperature, humidity, {steps}) AS r FROM s0", cls="report")
    backlog: list[float] = []
    memory = 0
    with running(engine, feed):
        engine.wait(WARM)
        latencies.since = time.time()
        for _ in range(int(MEASURED)):
            engine.wait(1.0)
            metrics = engine.metrics()
            backlog.append(metrics["waiting"])
            memory = max(memory, metrics.get("memory", {}).get("bytes", 0))
    return latencies.of(critical), backlog, memory

"""A costly function in class report needs one and a half times the processors: what becomes of class critical?"""

from __future__ import annotations

import os
import time
from typing import Any

import pyarrow as pa

from headgate.bench.arrivals import FolderFeed
from headgate.bench.plain import Latencies
from headgate.bench.workload import declarations, timed
from headgate.engine import Engine
from headgate.outcome import Outcome, Series
from headgate.spark.session import local_session

WARM, MEASURED = 20.0, 60.0
LOAD = 1.5
CRITICAL = 7
BUDGET = 0.03
"""New rows wait for the epoch that runs, so what reports may take of one is kept short."""
MEMORY = 64 << 20
RATE = 3000.0


def run() -> Outcome:
    """Critical queries alone, then the same with a report that needs more than there is; same rows, same length."""
    cost = seconds_per_step()
    # As many steps for every row as it takes to need one and a half times all cores.
    steps = max(1, round(LOAD * (os.cpu_count() or 1) / (RATE * cost)))
    spark = local_session("headgate-bench-overload")
    try:
        alone, _, _ = _run(spark, 0)
        beside, backlog, memory = _run(spark, steps)
    finally:
        spark.stop()
    measured: dict[str, Any] = {
        "critical_alone_s": alone[0],
        "critical_beside_overload_s": beside[0],
        "critical_alone_p99_s": alone[1],
        "critical_beside_overload_p99_s": beside[1],
        "ratio": beside[0] / alone[0],
        "backlog_rows_at_end": backlog[-1] if backlog else 0,
        "held_bytes_at_most": memory,
    }
    return Outcome(
        "overload",
        "critical alone, in the same run",
        "with a report that needs 150% of the processors, class critical stays within 1.5 times of its latency alone",
        {"ratio": 1.5, "held_bytes_at_most": MEMORY * 1.1},
        measured,
        lambda asked, found: bool(all(found[key] <= asked[key] for key in asked)),
        {
            "steps": steps,
            "seconds_per_step": cost,
            "rate": RATE,
            "budget_s": BUDGET,
            "memory_limit": MEMORY,
        },
        [Series("rows waiting", list(range(len(backlog))), backlog)],
        ("second", "rows waiting"),
    )


def risk(temperature: pa.Array, humidity: pa.Array, steps: pa.Array) -> pa.Array:
    """How far a fire spreads, row by row and step by step, as people write it: the function of the report."""
    found: list[float | None] = []
    for heat, damp, count in zip(temperature.to_pylist(), humidity.to_pylist(), steps.to_pylist(), strict=True):
        front = 0.0
        for step in range(count):
            front += max(0.0, (step & 7) + heat / 45.0 - damp / 100.0) * 0.01 / (1.0 + front)
        found.append(front)
    return pa.array(found, pa.float64())


def seconds_per_step() -> float:
    """What a step of `risk` costs on this machine."""
    column, steps = pa.array([20] * 50), pa.array([1000] * 50)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        risk(column, column, steps)
        best = min(best, time.perf_counter() - began)
    return best / 50_000


def _run(spark: Any, steps: int) -> tuple[tuple[float, float, int], list[float], int]:
    latencies = Latencies()
    arrivals = FolderFeed(["s0"], RATE)
    engine = Engine("cqc", spark=spark, budget=BUDGET, memory=MEMORY)
    engine.execute("CREATE CLASS critical WITH (priority = 6); CREATE CLASS report WITH (priority = 1);")
    engine.execute(declarations(["s0"], arrivals.folder))
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
    arrivals.start()
    try:
        engine.start()
        engine.wait(WARM)
        latencies.since = time.time()
        for _ in range(int(MEASURED)):
            engine.wait(1.0)
            metrics = engine.metrics()
            backlog.append(metrics["waiting"])
            memory = max(memory, metrics.get("memory", {}).get("bytes", 0))
    finally:
        arrivals.stop()
        engine.stop()
        arrivals.clean()
    return latencies.of(critical), backlog, memory

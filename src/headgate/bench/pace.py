"""The pace of epochs: processor time and latency of 21 selections with a loose latency spec, a tight one, and none."""

from __future__ import annotations

import time
from typing import Any

from headgate.bench.feed import FeedProcess
from headgate.bench.plain import Latencies, running
from headgate.bench.processor_time import ProcessorTime
from headgate.bench.queries_200 import selections
from headgate.bench.workload import declarations, timed
from headgate.engine import Engine
from headgate.outcome import Figures, Outcome
from headgate.spark.session import local_session

RATE = 2000.0
EVERY = 0.05
"""Seconds between two files: rows arrive all the time, so that every trigger finds some."""
QUERIES = 21
WARM, MEASURED = 40.0, 30.0
SIDES = {"loose": 2.0, "tight": 0.2, "none": None, "unlimited": None}
"""The latency (s) that each side asks for; `unlimited` is without a spec and without the limit on triggers."""
MOST = {"loose_cores": 0.4, "none_cores": 0.7}
LEAST = {"loose_met": 0.99, "tight_met": 0.95}


def run() -> Outcome:
    """Runs the same queries four times."""
    measured: dict[str, Any] = {}
    for side, latency in SIDES.items():
        spark = local_session(f"headgate-bench-{side}")
        try:
            measured |= {f"{side}_{name}": value for name, value in _side(spark, side, latency).items()}
        finally:
            spark.stop()
    return Outcome(
        "pace",
        "no peer: the pace of epochs follows from the specs",
        "21 selections at 2,000 rows/s take at most 0.4 cores with a latency of 2 s, which is met for 99% of the"
        " results; one of 200 ms is met for 95%; without a spec they take at most 0.7 cores",
        {**MOST, **LEAST},
        measured,
        _rule,
        {"rate": RATE, "file_every_s": EVERY, "queries": QUERIES, "warm_s": WARM, "measured_s": MEASURED},
    )


def _rule(goal: Figures, measured: Figures) -> bool:
    return all(measured[key] <= goal[key] for key in MOST) and all(measured[key] >= goal[key] for key in LEAST)


def _side(spark: Any, side: str, latency: float | None) -> dict[str, float]:
    latencies = Latencies()
    feed = FeedProcess(["s0"], RATE, EVERY)
    engine = Engine("cqc", spark=spark, trigger_cores=None if side == "unlimited" else 0.5)
    engine.execute(declarations(["s0"], feed.folder))
    for name, select in selections(QUERIES).items():
        spec = None if latency is None else {"latency": f"{latency * 1000:g} ms"}
        engine.query(name, select, sink=timed(name, latencies), spec=spec)
    with running(engine, feed):
        time.sleep(WARM)
        latencies.since = time.time()
        epochs = engine.metrics()["epochs"]
        used = ProcessorTime({feed.pid})
        time.sleep(MEASURED)
        cores = used.end() / MEASURED
        metrics = engine.metrics()
    mean, p99, _ = latencies.of([f"q{number}" for number in range(QUERIES)])
    found = {
        "cores": cores,
        "latency_s": mean,
        "p99_s": p99,
        "epochs_per_s": (metrics["epochs"] - epochs) / MEASURED,
        "trigger_cores": metrics["pace"]["trigger_cores"],
    }
    if latency is not None:
        found["met"] = latencies.within(latency)
    return found

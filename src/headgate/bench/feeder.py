"""The feeder on one core: rows per second of processor time, and the lag at 200,000 rows/s."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

from headgate.bench.timing import one_arrow_thread
from headgate.feeder import WORKLOADS, Feeder, FolderTarget, workload
from headgate.feeder.folder import FORMATS
from headgate.outcome import Figures, Outcome

RATE = 200_000.0
ON_TIME = 4.0
PROCESSOR = 2.0
LAG = 0.1
"""Largest lag (s) at which the schedule counts as kept: the interval between two batches."""
_GENERATED = tuple(name for name in WORKLOADS if name != "readings")


def run() -> Outcome:
    """Every workload to Parquet on time, and to every format as fast as one core can."""
    measured: dict[str, Any] = {}
    before = os.sched_getaffinity(0)
    # One core for all threads of this process, also those inside Arrow.
    os.sched_setaffinity(0, {min(before)})
    try:
        with one_arrow_thread():
            for name in _GENERATED:
                lag, share = _on_time(name)
                measured[f"{name}_lag_s"], measured[f"{name}_core_share"] = lag, share
                for form in FORMATS:
                    measured[f"{name}_{form}_rows_s"] = _at_most(name, form)
    finally:
        os.sched_setaffinity(0, before)
    rates = [figure for key, figure in measured.items() if key.endswith("_rows_s")]
    measured["lowest_rows_s"] = min(rates)
    measured["largest_lag_s"] = max(figure for key, figure in measured.items() if key.endswith("_lag_s"))
    return Outcome(
        "feeder",
        "003 §4.4: one thread feeds all streams",
        f"on one core the feeder keeps its schedule at {RATE:,.0f} rows/s, and no format is slower than that",
        {"largest_lag_s": LAG, "lowest_rows_s": RATE},
        measured,
        _kept,
        {"rate": RATE, "seconds": ON_TIME, "arrivals": "poisson", "every_s": 0.1},
    )


def _kept(goal: Figures, measured: Figures) -> bool:
    return bool(
        measured["largest_lag_s"] <= goal["largest_lag_s"] and measured["lowest_rows_s"] >= goal["lowest_rows_s"]
    )


def _on_time(name: str) -> tuple[float, float]:
    """The largest lag (s) and the share of a core, at the rate."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        feeder = Feeder(FolderTarget(folder), workload(name, RATE), seed=1, seconds=ON_TIME)
        used = time.process_time()
        progress = feeder.run()
        return progress.worst_lag, (time.process_time() - used) / progress.seconds


def _at_most(name: str, form: str) -> float:
    """Rows per second of processor time, without waiting for the clock."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        feeder = Feeder(FolderTarget(folder, form), workload(name, RATE), seed=1)
        began, moment = time.process_time(), 0.0
        while time.process_time() - began < PROCESSOR:
            moment += 0.1
            feeder.advance(moment)
        return feeder.progress().rows / (time.process_time() - began)

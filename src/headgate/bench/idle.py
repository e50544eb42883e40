"""An idle engine with 27 folders: its processor time, and how soon it answers the first row."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.bench.feed import rows, write
from headgate.bench.processor_time import ProcessorTime
from headgate.bench.workload import CLASSES, declarations, workload_21
from headgate.connectors import callback
from headgate.engine import Engine
from headgate.outcome import Outcome, at_most
from headgate.spark.session import local_session

WARM_FILES = 30
SETTLE, MEASURED = 30.0, 60.0
FIRST_ROWS = 5
PAUSE = 4.0
"""Seconds without rows before each of the first rows."""
LIMIT = 60.0


def run() -> Outcome:
    """Warms an engine up with files for one stream, lets it rest, and then sends single files after a pause each."""
    work = workload_21()
    spark = local_session("headgate-bench-idle")
    folder = tempfile.mkdtemp(prefix="headgate-bench-")
    random = np.random.default_rng(1)
    arrived = threading.Event()
    engine = Engine("cqc", spark=spark)

    def take(table: pa.Table) -> None:
        if table.num_rows:
            arrived.set()

    def answer(stream: str, number: int) -> float:
        """Seconds from a file with rows to the first result."""
        arrived.clear()
        began = time.perf_counter()
        write(f"{folder}/{stream}", number, rows(100, random, time.time()))
        if not arrived.wait(LIMIT):
            raise RuntimeError(f"no result within {LIMIT:g} s")
        return time.perf_counter() - began

    try:
        for stream in work.streams:
            Path(folder, stream).mkdir()
        engine.execute("".join(f"CREATE CLASS {name} WITH (priority = {rank});" for name, rank in CLASSES.items()))
        engine.execute(declarations(work.streams, folder))
        for name, select in work.queries.items():
            watched = name == "select_0"
            engine.query(name, select, cls=work.classes[name], sink=callback(take) if watched else ())
        engine.start()
        busy = [answer("s0", number) for number in range(WARM_FILES)]
        time.sleep(SETTLE)
        used, began = ProcessorTime(), time.monotonic()
        time.sleep(MEASURED)
        cores = used.end() / (time.monotonic() - began)
        first: list[float] = []
        faults: list[int] = []
        for number in range(FIRST_ROWS):
            time.sleep(PAUSE)
            before = _major_faults()
            first.append(answer("s0", WARM_FILES + number))
            faults.append(_major_faults() - before)
    finally:
        engine.stop()
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    measured: dict[str, Any] = {
        "idle_cores": cores,
        "slowest_first_row_s": max(first),
        "median_first_row_s": statistics.median(first),
        "median_busy_row_s": statistics.median(busy[WARM_FILES // 2 :]),
        "first_rows_s": first,
        "page_faults_of_first_rows": faults,
    }
    return Outcome(
        "idle",
        "no peer: plain Structured Streaming lists every folder of every query all the time",
        "an idle engine with 21 queries over 27 folders takes at most 0.03 of a core, in all its processes together,"
        " and answers the first row within 0.3 s",
        {"idle_cores": 0.03, "slowest_first_row_s": 0.3},
        measured,
        at_most,
        {"streams": len(work.streams), "settle_s": SETTLE, "measured_s": MEASURED, "pause_s": PAUSE},
    )


def _major_faults() -> int:
    """Pages that the machine has read from disk because a process touched them; 0 where Linux does not count them.

    If the machine evicts unused pages of code, the first row after a pause waits for the disk.
    """
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("pgmajfault ")), 0)

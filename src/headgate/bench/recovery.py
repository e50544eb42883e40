"""Restart after kill −9 with a large state: time until the first new result, and correctness of the counts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.bench.feed import write
from headgate.outcome import Figures, Outcome, at_most

STATE = 100 << 20
GROUPS = 2_000_000
"""Number of groups for which the state of an unwindowed aggregate exceeds 100 MB."""
FILES = 20


def run() -> Outcome:
    """Fills the state, kills the driver, restarts it from the checkpoint and sends a second row for 100 keys."""
    folder = tempfile.mkdtemp(prefix="headgate-bench-")
    try:
        os.makedirs(f"{folder}/in")
        for number in range(FILES):
            write(f"{folder}/in", number, _keys(number * GROUPS // FILES, GROUPS // FILES))
        with _started(folder) as first:
            full = _wait_until(folder, first, lambda seen: seen["rows"] >= GROUPS and seen.get("state", 0) >= STATE)
        write(f"{folder}/in", FILES, _keys(0, 100))
        restarted = time.time()
        with _started(folder) as second:
            progress = _wait_until(folder, second, lambda seen: seen.get("first", 0.0) > 0)
        counts = progress["counts"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    measured: dict[str, Any] = {
        "state_bytes": full["state"],
        "seconds_to_first_result": progress["first"] - progress["started"],
        "seconds_since_process_start": progress["first"] - restarted,
        "new_counts": len(counts),
        "wrong_counts": sum(count != 2 for count in counts),
    }
    return Outcome(
        "recovery",
        "no peer: plain Structured Streaming keeps such state in RocksDB or on the JVM's heap",
        "after kill −9 with 100 MB of state the first new result follows within 4 s of the start of the epoch loop",
        {"seconds_to_first_result": 4.0, "wrong_counts": 0},
        measured,
        _rule,
        {"groups": GROUPS, "files": FILES},
    )


def _rule(goal: Figures, measured: Figures) -> bool:
    return measured["state_bytes"] >= STATE and measured["new_counts"] == 100 and at_most(goal, measured)


def _keys(start: int, count: int) -> pa.Table:
    return pa.table({"k": pa.array(np.arange(start, start + count)), "v": pa.array(np.ones(count, dtype=np.int64))})


@contextmanager
def _started(folder: str) -> Iterator[subprocess.Popen[bytes]]:
    """An engine in a separate process group, which is killed at the end, also if the bench itself is terminated."""
    Path(folder, "progress").unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate.bench.recovery", folder], start_new_session=True, stderr=subprocess.DEVNULL
    )
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _wait_until(
    folder: str, process: subprocess.Popen[bytes], reached: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    until = time.monotonic() + 240
    progress: dict[str, Any] = {}
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError("the engine ended before it reached the expected state")
        try:
            progress = json.loads(Path(folder, "progress").read_text())
            if reached(progress):
                return progress
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise RuntimeError(
        f"the engine did not reach the expected state within 240 s; it has {progress.get('rows', 0)} results"
        f" and {progress.get('state', 0)} bytes of state"
    )


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _run_engine(folder: str) -> None:
    """The process that is killed: runs the engine and reports its progress in a file."""
    from headgate.connectors import callback
    from headgate.engine import Engine

    engine = Engine("cqc", f"{folder}/checkpoint", budget=None)
    engine.execute(
        f"CREATE STREAM s (k BIGINT, v BIGINT) USING parquet OPTIONS (path '{folder}/in', maxFilesPerTrigger '5');"
    )
    progress: dict[str, Any] = {"rows": 0, "first": 0.0, "counts": []}

    def take(table: pa.Table) -> None:
        progress["rows"] += table.num_rows
        # Results published just before the kill are published again; only second counts of a key are new.
        new = table.filter(pa.compute.greater(table.column("n"), 1)).column("n").to_pylist()
        if new and not progress["first"]:
            progress["first"] = time.time()
            progress["counts"] = new
        report()

    def report() -> None:
        progress["state"] = sum(q.get("state_bytes", 0) for q in engine.metrics()["queries"].values())
        hidden = Path(folder, ".progress")
        hidden.write_text(json.dumps(progress))
        hidden.rename(Path(folder, "progress"))

    engine.query("counts", "SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k", sink=callback(take))
    # The start of Spark and its Python workers does not count: the clock starts with the epoch loop.
    engine.spark.range(1).mapInArrow(_identity, "id long").count()
    progress["started"] = time.time()
    engine.start()
    while not engine.wait(0.5):
        report()


if __name__ == "__main__":
    _run_engine(sys.argv[1])

"""Restart after kill −9 with a large state: how long until the first new result, and is anything lost?"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.bench.arrivals import write
from headgate.outcome import Outcome

STATE = 100 << 20
GROUPS = 2_000_000
"""Groups of an unwindowed aggregate whose state is above 100 MB."""
FILES = 20


def run() -> Outcome:
    """Fills the state, kills the driver, starts it again on the checkpoint and sends one more row of every key."""
    folder = tempfile.mkdtemp(prefix="headgate-bench-")
    try:
        os.makedirs(f"{folder}/in")
        for number in range(FILES):
            write(f"{folder}/in", number, _keys(number * GROUPS // FILES, GROUPS // FILES))
        with _started(folder) as first:
            state = _until(folder, first, lambda told: told["rows"] >= GROUPS and told.get("state", 0) >= STATE)
        write(f"{folder}/in", FILES, _keys(0, 100))
        with _started(folder) as second:
            told = _until(folder, second, lambda told: told.get("first", 0.0) > 0)
        counts = told["counts"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    measured: dict[str, Any] = {
        "state_bytes": state["state"],
        "seconds_to_first_result": told["first"] - told["started"],
        "new_counts": len(counts),
        "wrong_counts": sum(count != 2 for count in counts),
    }
    return Outcome(
        "recovery",
        "ours alone: plain Structured Streaming keeps such state in RocksDB or in the JVM's heap",
        "after kill −9 with 100 MB of state the first new result comes within 5 s of the start of the epoch loop",
        {"seconds_to_first_result": 5.0, "wrong_counts": 0},
        measured,
        lambda asked, found: bool(
            found["state_bytes"] >= STATE and found["new_counts"] == 100 and all(found[k] <= asked[k] for k in asked)
        ),
        {"groups": GROUPS, "files": FILES},
    )


def _keys(start: int, count: int) -> pa.Table:
    return pa.table({"k": pa.array(np.arange(start, start + count)), "v": pa.array(np.ones(count, dtype=np.int64))})


@contextmanager
def _started(folder: str) -> Iterator[subprocess.Popen[bytes]]:
    """An engine of its own, with all its processes; killed in the end, also when the bench itself is ended."""
    Path(folder, "told").unlink(missing_ok=True)
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


def _until(folder: str, process: subprocess.Popen[bytes], enough: Any) -> dict[str, Any]:
    until = time.monotonic() + 240
    told: dict[str, Any] = {}
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError("the engine of the bench ended before its state was full")
        try:
            told = json.loads(Path(folder, "told").read_text())
            if enough(told):
                return told
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise RuntimeError(
        f"the engine of the bench did not get there within 240 s; it had {told.get('rows', 0)} results"
        f" and {told.get('state', 0)} bytes of state"
    )


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _live(folder: str) -> None:
    """The process that is killed: runs the engine and tells in a file how far it is."""
    from headgate.engine import Engine
    from headgate.spark.sinks import callback

    engine = Engine("cqc", f"{folder}/checkpoint", budget=None)
    engine.execute(
        f"CREATE STREAM s (k BIGINT, v BIGINT) USING parquet OPTIONS (path '{folder}/in', maxFilesPerTrigger '5');"
    )
    told: dict[str, Any] = {"rows": 0, "first": 0.0, "counts": []}

    def take(table: pa.Table) -> None:
        told["rows"] += table.num_rows
        # What was published before the kill and not noted comes again; new is what counts a key anew.
        new = table.filter(pa.compute.greater(table.column("n"), 1)).column("n").to_pylist()
        if new and not told["first"]:
            told["first"] = time.time()
            told["counts"] = new
        tell()

    def tell() -> None:
        told["state"] = sum(q.get("state_bytes", 0) for q in engine.metrics()["queries"].values())
        hidden = Path(folder, ".told")
        hidden.write_text(json.dumps(told))
        hidden.rename(Path(folder, "told"))

    engine.query("counts", "SELECT k, count(*) AS n, sum(v) AS s FROM s GROUP BY k", sink=callback(take))
    # Spark's own start, with that of its Python workers, is not ours: the clock starts with the epoch loop.
    engine.spark.range(1).mapInArrow(_same, "id long").count()
    told["started"] = time.time()
    engine.start()
    while not engine.wait(0.5):
        tell()


if __name__ == "__main__":
    _live(sys.argv[1])

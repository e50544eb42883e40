"""Queries beside one whose function does harm: how soon they answer again, and whether a row is lost or doubled.

Beside good queries that write Parquet files, the function of another query hangs, ends its process, crashes it, or
takes 6 GB of memory when a negative value arrives. Also how long `Engine.stop` and Ctrl-C take while a function hangs
that may take an hour.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.bench.feed import write
from headgate.bench.harm import HANGING, HARMS
from headgate.engine import Engine
from headgate.outcome import Figures, Outcome, at_most
from headgate.spark.session import local_session

LIMIT = 5.0
"""The time limit (s) of the harmful function. The one that takes memory has a longer one, so that memory ends it."""
MEMORY_LIMIT = 60.0
AFTER, STOP = 10.0, 10.0
"""Seconds after the time limit in which the good queries answer again, and seconds that a stop may take."""
ROWS, EVERY = 1_000, 0.25
"""Rows of a file, and seconds between two files."""
PATIENCE = 240.0

STREAM = """
CREATE STREAM s (ts TIMESTAMP, n BIGINT, v INT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)
USING parquet OPTIONS (path '{folder}/in');
CREATE FUNCTION harm(v INT) RETURNS INT AS 'headgate.bench.harm:{harm}' WITH (timeout = '{timeout} seconds');
CREATE QUERY bad AS SELECT harm(v) AS v FROM s;
"""
GOOD = {
    "selected": "SELECT ts, n, v FROM s WHERE v % 2 = 0",
    "sums": "SELECT window(ts, '1 second') AS w, count(*) AS rows, sum(n) AS total FROM s"
    " GROUP BY window(ts, '1 second')",
}


def run() -> Outcome:
    """One run for each harm, and one for each way to stop."""
    measured: dict[str, Any] = {"rows_wrong": 0, "failed": 0}
    spark = local_session("headgate-bench")
    try:
        for harm in HARMS:
            with _folder() as folder:
                for name, value in _harmed(spark, folder, harm).items():
                    measured[f"{harm}_{name}"] = value
                measured["rows_wrong"] += measured[f"{harm}_rows_wrong"]
                measured["failed"] += harm in measured[f"{harm}_reason"]
        with _folder() as folder:
            measured["stop_s"] = _stopped(spark, folder)
    finally:
        spark.stop()
    with _folder() as folder:
        measured["interrupt_s"] = _interrupted(folder)
    return Outcome(
        "isolation",
        "no peer: with plain Structured Streaming each query has an application of its own to be isolated from others",
        "beside a query whose function hangs, exits, crashes or takes 6 GB, the others answer again within"
        f" {LIMIT + AFTER:g} s (the time limit is {LIMIT:g} s, for memory {MEMORY_LIMIT:g} s), with the"
        f" rows of plain Spark; stop and Ctrl-C end within {STOP:g} s",
        {
            **{f"{harm}_recovery_s": LIMIT + AFTER for harm in HARMS},
            "rows_wrong": 0,
            "stop_s": STOP,
            "interrupt_s": STOP,
        },
        measured,
        _rule,
        {"limit_s": LIMIT, "memory_limit_s": MEMORY_LIMIT, "rows": ROWS, "every_s": EVERY},
    )


def _rule(goal: Figures, measured: Figures) -> bool:
    return at_most(goal, measured) and measured["failed"] == len(HARMS)


class NumberedRows:
    """Writes files of numbered rows, on a thread of its own once started."""

    def __init__(self, folder: str) -> None:
        os.makedirs(f"{folder}/in")
        self._folder = f"{folder}/in"
        self._files = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="headgate-bench-rows", daemon=True)

    def add(self, harm: bool = False) -> tuple[int, float]:
        """Writes a file, with a negative value if it is to do `harm`; returns the number of its first row, whose value
        is even, and the time."""
        first = self._files * ROWS
        numbers = np.arange(first, first + ROWS)
        values = (numbers % 100).astype(np.int32)
        if harm:
            values[1] = -1
        now = time.time()
        times = pa.array((now * 1e6 + np.arange(ROWS)).astype(np.int64)).cast(pa.timestamp("us", "UTC"))
        write(self._folder, self._files, pa.table({"ts": times, "n": pa.array(numbers), "v": pa.array(values)}))
        self._files += 1
        return first, now

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._closed.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._closed.wait(EVERY):
            self.add()


class ShownNumbers:
    """The numbers of the rows that the sink of `selected` shows."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder, "out", "selected")
        self._read: set[str] = set()
        self._numbers: set[int] = set()

    def has(self, number: int) -> bool:
        for file in self._folder.glob("*.parquet"):
            if file.name not in self._read:
                self._read.add(file.name)
                self._numbers.update(pq.read_table(file, columns=["n"]).column("n").to_pylist())
        return number in self._numbers


def _engine(spark: Any, folder: str, harm: str, timeout: float) -> Engine:
    engine = Engine("cqc", f"{folder}/checkpoint", spark=spark)
    engine.execute(STREAM.format(folder=folder, harm=harm, timeout=timeout))
    engine.execute(_good(folder))
    return engine


def _good(folder: str) -> str:
    return "".join(
        f"CREATE QUERY {name} INTO parquet OPTIONS (path '{folder}/out/{name}') AS {select};\n"
        for name, select in GOOD.items()
    )


def _harmed(spark: Any, folder: str, harm: str) -> dict[str, Any]:
    """The figures of one harm, while rows arrive all the time."""
    rows, answers = NumberedRows(folder), ShownNumbers(folder)
    rows.add()
    limit = MEMORY_LIMIT if harm == "swallow" else LIMIT
    engine = _engine(spark, folder, harm, limit)
    engine.start()
    try:
        _until(lambda: answers.has(0))
        usual = _seconds(rows, answers, harm=False)
        recovery = _seconds(rows, answers, harm=True)
        rows.start()
        _until(lambda: engine.metrics()["queries"]["bad"]["state"] == "failed")
        # Goes on as before: the query has failed once and for all.
        time.sleep(2.0)
        rows.stop()
        again = _seconds(rows, answers, harm=True)
        reason = engine.metrics()["queries"]["bad"]["error"]
    finally:
        began = time.monotonic()
        engine.stop()
        stopped = time.monotonic() - began
    if engine.failure is not None:
        raise engine.failure
    # The windows that are open end with the streams.
    last = _engine(spark, folder, harm, limit)
    last.run_once()
    return {
        "recovery_s": recovery,
        "usual_s": usual,
        "again_s": again,
        "rows_wrong": _wrong(spark, folder),
        "stop_s": stopped,
        "reason": reason,
    }


def _seconds(rows: NumberedRows, answers: ShownNumbers, harm: bool) -> float:
    """Seconds from the moment that a file is there until the sink shows one of its rows."""
    first, began = rows.add(harm)
    _until(lambda: answers.has(first))
    return time.time() - began


def _wrong(spark: Any, folder: str) -> int:
    """Rows that the good queries lack, or have and should not have, by what plain Spark answers to all rows."""
    spark.read.parquet(f"{folder}/in").createOrReplaceTempView("s")
    wrong = 0
    for name, select in GOOD.items():
        files = sorted(Path(folder, "out", name).glob("*.parquet"))
        found = Counter(repr(row) for file in files for row in pq.read_table(file).to_pylist())
        wanted = Counter(map(repr, spark.sql(select).toArrow().to_pylist()))
        wrong += (found - wanted).total() + (wanted - found).total()
    return wrong


def _stopped(spark: Any, folder: str) -> float:
    """Seconds of `Engine.stop` while a function hangs that may take an hour."""
    rows, answers = NumberedRows(folder), ShownNumbers(folder)
    rows.add()
    os.environ[HANGING] = f"{folder}/hanging"
    engine = _engine(spark, folder, "hang", 3600.0)
    engine.start()
    try:
        _until(lambda: answers.has(0))
        rows.add(harm=True)
        _until(lambda: os.path.exists(f"{folder}/hanging"))
    finally:
        began = time.monotonic()
        engine.stop()
        del os.environ[HANGING]
    return time.monotonic() - began


def _interrupted(folder: str) -> float:
    """Seconds from Ctrl-C until `headgate run` has ended, while a function hangs that may take an hour."""
    rows, answers = NumberedRows(folder), ShownNumbers(folder)
    rows.add()
    script = Path(folder, "script.sql")
    script.write_text(STREAM.format(folder=folder, harm="hang", timeout=3600.0) + _good(folder))
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate.cli.main", "run", str(script), "--checkpoint", f"{folder}/checkpoint"],
        env={**os.environ, HANGING: f"{folder}/hanging"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _until(lambda: answers.has(0), process)
        rows.add(harm=True)
        _until(lambda: os.path.exists(f"{folder}/hanging"), process)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        return time.monotonic() - began
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _until(condition: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"headgate run ended with code {process.returncode}")
        if time.monotonic() > end:
            raise RuntimeError(f"what the bench waits for did not happen within {PATIENCE:g} s")
        time.sleep(0.02)


@contextmanager
def _folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="headgate-bench-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

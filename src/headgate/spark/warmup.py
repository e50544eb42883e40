"""Starts a Python worker while the engine is still planning, since its first start takes seconds, mostly imports; and
keeps it while no rows arrive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

UNUSED = 40.0
"""Seconds without a job after which a worker gets a task. Spark ends workers that are idle for a minute, and the first
row after that waits 0.3 s for a new one."""

_started: dict[str, threading.Thread] = {}
_lock = threading.Lock()


def warm_up(spark: Any) -> threading.Thread:
    """Starts the worker, once for each Spark application, and returns immediately."""
    application = str(spark.sparkContext.applicationId)
    with _lock:
        if application not in _started:
            thread = threading.Thread(target=_job, args=(spark,), name="headgate-warm-up", daemon=True)
            _started[application] = thread
            thread.start()
        return _started[application]


class KeptWorkers:
    """Keeps the Python workers of a local session while an engine is idle, with a thread of its own until `close`.

    `last_job`: when the last job of the engine began, by the monotonic clock.
    """

    def __init__(self, spark: Any, last_job: Callable[[], float], unused: float = UNUSED) -> None:
        self._spark = spark
        self._last_job = last_job
        self._unused = unused
        self._closed = threading.Event()
        self.tasks = 0
        """Number of tasks that the workers got from here."""
        threading.Thread(target=self._run, name="headgate-kept-workers", daemon=True).start()

    def close(self) -> None:
        """Ends the thread; does not wait for a task that it runs."""
        self._closed.set()

    def _run(self) -> None:
        used = time.monotonic()
        while not self._closed.wait(used + self._unused - time.monotonic()):
            used = max(used, self._last_job())
            if time.monotonic() - used >= self._unused:
                _job(self._spark)
                self.tasks += 1
                used = time.monotonic()


def _job(spark: Any) -> None:
    # If Spark is stopped meanwhile, no worker is needed.
    with suppress(Exception):
        spark.range(1).coalesce(1).mapInArrow(_imports, "ready boolean").collect()


def _imports(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import headgate.spark.task  # noqa: F401 - imports all that a task needs

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"ready": [True]})

"""Starts a Python worker while the engine is still planning: its first start takes seconds, mostly imports."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

_started: dict[str, threading.Thread] = {}
_lock = threading.Lock()


def warm_up(spark: Any) -> threading.Thread:
    """Starts the worker, once for each Spark application, and returns immediately."""
    application = str(spark.sparkContext.applicationId)
    with _lock:
        if application not in _started:
            thread = threading.Thread(target=_first_job, args=(spark,), name="headgate-warm-up", daemon=True)
            _started[application] = thread
            thread.start()
        return _started[application]


def _first_job(spark: Any) -> None:
    # If Spark is stopped meanwhile, no worker is needed.
    with suppress(Exception):
        spark.range(1).coalesce(1).mapInArrow(_imports, "ready boolean").collect()


def _imports(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import headgate.spark.task  # noqa: F401 - imports all that a task needs

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"ready": [True]})

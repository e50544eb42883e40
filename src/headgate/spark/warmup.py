"""Gets a Python worker ready while the engine still plans: its first start takes seconds, mostly imports."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

_begun: dict[str, threading.Thread] = {}
_lock = threading.Lock()


def warm_up(spark: Any) -> threading.Thread:
    """Begins it, once for each Spark application, and returns at once.

    The first epoch must wait for the thread to end: if both ran at once Spark would start a second worker, tasks would
    go to the two in turn, and each would find the network in the state of the epoch before the last.
    """
    application = str(spark.sparkContext.applicationId)
    with _lock:
        if application not in _begun:
            thread = threading.Thread(target=_first_job, args=(spark,), name="headgate-warm-up", daemon=True)
            _begun[application] = thread
            thread.start()
        return _begun[application]


def _first_job(spark: Any) -> None:
    # If Spark is stopped meanwhile, there is nothing to get ready for.
    with suppress(Exception):
        spark.range(1).coalesce(1).mapInArrow(_imports, "ready boolean").collect()


def _imports(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import headgate.spark.worker  # noqa: F401 - what an epoch needs, and all that it imports

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"ready": [True]})

"""Gets a Python worker ready while the engine still plans: its first start takes seconds, mostly imports."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

_begun: set[str] = set()
_lock = threading.Lock()


def warm_up(spark: Any) -> None:
    """Begins it, once for each Spark application; returns at once. The worker is used again for the first epoch."""
    application = str(spark.sparkContext.applicationId)
    with _lock:
        if application in _begun:
            return
        _begun.add(application)
    threading.Thread(target=_first_job, args=(spark,), name="headgate-warm-up", daemon=True).start()


def _first_job(spark: Any) -> None:
    # If Spark is stopped meanwhile, there is nothing to get ready for.
    with suppress(Exception):
        spark.range(1).coalesce(1).mapInArrow(_imports, "ready boolean").collect()


def _imports(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import headgate.spark.worker  # noqa: F401 - what an epoch needs, and all that it imports

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"ready": [True]})

"""Python workers are kept while an engine is idle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from headgate.spark.warmup import KeptWorkers
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


@pytest.fixture
def kept(spark: Any) -> Iterator[Any]:
    made: list[KeptWorkers] = []

    def keep(*args: Any) -> KeptWorkers:
        made.append(KeptWorkers(spark, *args))
        return made[-1]

    yield keep
    for each in made:
        each.close()


def _worker(spark: Any) -> int:
    """The process of a Python worker."""

    def processes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"pid": [os.getpid()]})

    [row] = spark.range(1).coalesce(1).mapInArrow(processes, "pid long").collect()
    return int(row.pid)


def test_an_idle_engine_uses_its_worker_again_and_again(kept: Any) -> None:
    began = time.monotonic()
    workers = kept(lambda: began, 0.05)
    wait_until(lambda: workers.tasks >= 3)


def test_a_busy_engine_needs_no_tasks(kept: Any) -> None:
    idle = kept(lambda: 0.0, 0.05)
    busy = kept(time.monotonic, 0.05)
    wait_until(lambda: idle.tasks >= 5)
    assert not busy.tasks


@pytest.mark.slow
def test_a_worker_outlives_spark_s_minute(spark: Any, kept: Any) -> None:
    # Spark ends idle workers one minute after their last task, and looks every ten seconds.
    before = _worker(spark)
    workers = kept(lambda: 0.0, 40.0)
    wait_until(lambda: workers.tasks == 2)
    assert _worker(spark) == before

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


def _began(spark: Any) -> float:
    """When the Python worker of a task was started, in seconds since the machine was."""

    def moments(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        with open("/proc/self/stat") as stat:
            ticks = int(stat.read().rpartition(")")[2].split()[19])
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"began": [ticks / os.sysconf("SC_CLK_TCK")]})

    [row] = spark.range(1).coalesce(1).mapInArrow(moments, "began double").collect()
    return float(row.began)


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
    _began(spark)
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    workers = kept(lambda: 0.0, 40.0)
    wait_until(lambda: workers.tasks == 2)
    # Other tests may have left more than one.
    assert _began(spark) < before

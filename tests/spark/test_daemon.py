"""The parent of Spark's Python workers."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

WORK_OFF_A_CLOSED_SOCKET = """
import socket
import {module}
ours, sparks = socket.socketpair()
sparks.close()
{module}.worker(ours, True)
"""


def _printed(module: str) -> str:
    environment = {**os.environ, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}
    code = WORK_OFF_A_CLOSED_SOCKET.format(module=module)
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True).stderr


def test_a_worker_without_a_socket_ends_silently() -> None:
    assert _printed("headgate.spark.daemon") == ""


def test_the_worker_of_spark_prints_a_stack_trace() -> None:
    if "BrokenPipeError" not in _printed("pyspark.daemon"):
        pytest.fail("Spark's own daemon is quiet now: headgate/spark/daemon.py can go")


@pytest.mark.spark
def test_workers_do_not_look_at_what_they_imported_after_every_task(spark: Any) -> None:
    def objects(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        yield pa.RecordBatch.from_pydict({"exempt": [gc.get_freeze_count()], "collected": [len(gc.get_objects())]})

    frame = spark.range(1).coalesce(1).mapInArrow(objects, "exempt long, collected long")
    for _ in range(3):
        [row] = frame.collect()
    assert row.collected < row.exempt / 10

"""The parent of Spark's Python workers."""

from __future__ import annotations

import os
import subprocess
import sys

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

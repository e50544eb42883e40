"""The process that Spark forks its Python workers from: Spark's own, with two differences.

It imports what Headgate's tasks need before it forks. Spark ends workers that are idle for a minute: the first row
after that waits for a new worker, whose imports took most of a second.

A worker whose socket is closed ends silently. When Spark stops, it closes the sockets of idle workers and then ends
their parent. Spark's own worker, if it notices first, tries to report the closed socket through that socket, and prints
a stack trace.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import pyspark.daemon as spark

# If something is missing, the first task reports it (`executor_start.py`).
with suppress(ImportError):
    import pyspark.sql.pandas.serializers
    import pyspark.sql.pandas.types  # noqa: F401

    import headgate.spark.task  # noqa: F401

_work = spark.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Runs tasks as Spark's own worker does."""
    try:
        return _work(sock, authenticated)
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    spark.worker = worker
    spark.manager()

"""The process that Spark forks its Python workers from: Spark's own, with three differences.

It imports what Headgate's tasks need before it forks. Spark ends workers that are idle for a minute: the first row
after that waits for a new worker, whose imports took most of a second.

A worker whose socket is closed ends silently. When Spark stops, it closes the sockets of idle workers and then ends
their parent. Spark's own worker, if it notices first, tries to report the closed socket through that socket, and prints
a stack trace.

Spark's worker collects garbage after each task, which looks at every object of the imported modules: 35 ms of processor
time, four fifths of what a short task takes. What the imports have made is exempt from it here.
"""

from __future__ import annotations

import gc
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
_tasks = 0


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Runs a task as Spark's own worker does."""
    global _tasks
    try:
        return _work(sock, authenticated)
    except BrokenPipeError:
        os._exit(0)
    finally:
        _tasks += 1
        if _tasks == 1:
            # The first task imports modules, too.
            exempt_from_collection()


def exempt_from_collection() -> None:
    """From now on the garbage collector ignores all objects that there are."""
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    exempt_from_collection()
    spark.worker = worker
    spark.manager()

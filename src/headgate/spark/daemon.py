"""The process that Spark forks its Python workers from: Spark's own, but a worker without a socket ends silently.

When Spark stops, it closes the sockets of idle workers and then ends their parent. A worker that notices first tries
to report the closed socket through that socket, and prints a stack trace.
"""

from __future__ import annotations

import os
import socket

import pyspark.daemon as spark

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

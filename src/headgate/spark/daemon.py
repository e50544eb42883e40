"""The process that Spark forks its Python workers from: Spark's own, but a worker whose socket is gone ends in silence.

When Spark stops it closes the sockets of idle workers and then ends their parent. A worker that is faster than its
parent tries to tell Spark about the closed socket through the closed socket, and prints a stack trace about that.
"""

from __future__ import annotations

import os
import socket

import pyspark.daemon as spark

_work = spark.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Works off a task as Spark's own does."""
    try:
        return _work(sock, authenticated)
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    spark.worker = worker
    spark.manager()

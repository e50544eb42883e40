"""The first task on an executor: looks whether its Python has what hosts need, and starts the host of a replica.

Imports nothing that may be missing there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from headgate.spark.messages import HostAddress
from headgate.spark.spark_errors import expecting_errors, spark_errors

REQUIRED = ("pyarrow", "numpy")
"""The packages that hosts import and that are not shipped (`shipping.py`)."""


class ExecutorError(RuntimeError):
    """Executors cannot run hosts; the message says what they lack."""


def start_host(spark: Any, run: str, token: str) -> HostAddress | None:
    """Starts the host of replica 0 on some executor, before the first epoch needs it; waits for an executor.

    ExecutorError if the executor's Python lacks something. None if it cannot be started yet: the first epoch starts it,
    or says why not.
    """
    # By `mapInArrow`, as epochs: for other kinds of tasks Spark starts another process to fork workers from.
    rows = spark.range(1).coalesce(1).mapInArrow(partial(_start, run, token), "address string")
    try:
        with expecting_errors():
            [row] = rows.collect()
        return HostAddress(**json.loads(row[0]))
    except spark_errors():
        [found] = spark.sparkContext.parallelize([0], 1).map(_lacking).collect()
        if found:
            python, names = found
            raise ExecutorError(
                f"the workers' Python, {python}, has no {' and no '.join(names)}: install what is missing there (pip"
                f" install {' '.join(names)}), or name a Python that has it with PYSPARK_PYTHON"
            ) from None
        return None


def _start(run: str, token: str, batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    from headgate.spark.host_client import ensure_host
    from headgate.spark.processes import executor_pid

    for _ in batches:
        pass
    address = ensure_host(run, 0, token, executor_pid(), tcp=True)
    yield pa.RecordBatch.from_pydict({"address": [json.dumps(asdict(address))]})


def _lacking(_: int) -> tuple[str, list[str]] | None:
    names = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    return (f"{sys.executable} on {os.uname().nodename}", names) if names else None

"""The first tasks on executors: check that their Python has what hosts need, and start the hosts of all replicas.

Imports nothing that executors may lack.
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

from headgate.spark.executors import await_executors, hosts_per_node
from headgate.spark.messages import HostAddress
from headgate.spark.spark_errors import expecting_errors, spark_errors

REQUIRED = ("pyarrow", "numpy")
"""The packages that hosts import and that are not shipped (`shipping.py`)."""


class ExecutorError(RuntimeError):
    """Executors cannot run hosts; the message says what they lack."""


def start_hosts(spark: Any, run: str, token: str, replicas: int) -> list[HostAddress | None]:
    """Starts the hosts of all replicas on executors, before the first epoch needs them; waits for executors.

    ExecutorError if the executors' Python lacks something. None for hosts that cannot be started yet: the first epoch
    starts them, or reports why it cannot.
    """
    # Spark spreads tasks evenly, but only over executors that are registered when the job begins.
    beside = hosts_per_node(await_executors(spark, replicas), replicas)
    # Uses `mapInArrow`, as epochs do: for other kinds of tasks Spark starts another process to fork workers from.
    numbers = spark.range(0, replicas, 1, replicas)
    rows = numbers.mapInArrow(partial(_start, run, token, beside), "replica int, address string")
    try:
        with expecting_errors():
            found = {int(row[0]): HostAddress(**json.loads(row[1])) for row in rows.collect()}
        return [found[replica] for replica in range(replicas)]
    except spark_errors():
        [lacking] = spark.sparkContext.parallelize([0], 1).map(_lacking).collect()
        if lacking:
            python, names = lacking
            raise ExecutorError(
                f"the workers' Python, {python}, has no {' and no '.join(names)}: install what is missing there (pip"
                f" install {' '.join(names)}), or name a Python that has it with PYSPARK_PYTHON"
            ) from None
        return [None] * replicas


def _start(run: str, token: str, beside: int, batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    from headgate.spark.host_client import ensure_host
    from headgate.spark.processes import executor_pid, memory_of_host

    for batch in batches:
        for replica in batch.column(0).to_pylist():
            address = ensure_host(run, replica, token, executor_pid(), tcp=True, memory=memory_of_host(beside))
            schema = pa.schema([("replica", pa.int32()), ("address", pa.string())])
            yield pa.RecordBatch.from_pylist([{"replica": replica, "address": json.dumps(asdict(address))}], schema)


def _lacking(_: int) -> tuple[str, list[str]] | None:
    names = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    return (f"{sys.executable} on {os.uname().nodename}", names) if names else None

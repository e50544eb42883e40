"""Moves hosts away from crowded executors: they started before all executors were there, or while one was lost."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from headgate.spark.driver import Driver
from headgate.spark.epochs import Epochs
from headgate.spark.executors import hosts_per_node, registered
from headgate.spark.host_client import close_host
from headgate.spark.messages import HostAddress
from headgate.spark.spark_errors import expecting_errors, spark_errors

EVERY = 10.0
"""Seconds between two looks at the executors; twice as long after each attempt that has reached no empty one."""
LONGEST = 600.0

Place = tuple[str, int]
"""An executor: its node and process."""


class HostSpread:
    """Watches where the hosts of a run are. Used by the driver's thread."""

    def __init__(
        self,
        spark: Any,
        driver: Driver,
        epochs: Epochs,
        run: str,
        token: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._driver = driver
        self._epochs = epochs
        self._run = run
        self._token = token
        self._clock = clock
        self._pause = EVERY
        self._next = clock() + EVERY

    def look(self) -> None:
        """After an epoch: has a host moved before the next one if its executor has several and another has none."""
        if self._clock() < self._next or len(self._epochs.hosts) < 2:
            return
        self._next = self._clock() + self._pause
        if crowded(self._epochs.hosts, len(registered(self._spark))) is not None:
            self._driver.submit(self._move)

    def _move(self) -> None:
        executors = registered(self._spark)
        replica = crowded(self._epochs.hosts, len(executors))
        if replica is None:
            return
        hosts = self._epochs.hosts
        taken = {_place(host) for host in hosts if host is not None}
        beside = hosts_per_node(executors, len(hosts))
        start = partial(_start_elsewhere, self._run, self._token, replica, beside, taken)
        cores = sum(each.cores for each in executors)
        try:
            with expecting_errors():
                # As many tasks as cores: one at least is on the executor without a host, unless others use it.
                rows = self._spark.range(0, cores, 1, cores).mapInArrow(start, "address string").collect()
        except spark_errors():
            rows = []
        found = [HostAddress(**json.loads(text)) for text in dict.fromkeys(str(row[0]) for row in rows)]
        self._pause = EVERY if found else min(LONGEST, 2 * self._pause)
        old = hosts[replica]
        for address in found[1:] if found else ():
            close_host(address, self._token)
        if found and old is not None:
            # The next epoch restores the last commit there.
            self._epochs.hosts = [*hosts[:replica], found[0], *hosts[replica + 1 :]]
            close_host(old, self._token)


def crowded(hosts: Sequence[HostAddress | None], executors: int) -> int | None:
    """The replica whose host should move, if there are so many executors: one of those that share an executor, while
    another has no host.

    >>> a, b = HostAddress("n", "", 1, owner=7), HostAddress("n", "", 2, owner=8)
    >>> crowded([a, a], 2), crowded([a, b], 2), crowded([a, a], 1), crowded([a, b, b], 2), crowded([b, a, a], 3)
    (1, None, None, None, 2)
    """
    if any(host is None or not host.owner for host in hosts):
        # Somebody starts it just now.
        return None
    counts = Counter(_place(host) for host in hosts if host is not None)
    if not counts or len(counts) >= executors or max(counts.values()) < 2:
        return None
    fullest = max(counts, key=lambda place: counts[place])
    return max(replica for replica, host in enumerate(hosts) if host is not None and _place(host) == fullest)


def _place(host: HostAddress) -> Place:
    return host.node, host.owner


def _start_elsewhere(
    run: str, token: str, replica: int, beside: int, taken: set[Place], batches: Iterator[Any]
) -> Iterator[Any]:
    """In a task: starts the host of a replica, unless this executor has a host."""
    import pyarrow as pa

    from headgate.spark.host_client import ensure_host
    from headgate.spark.processes import executor_pid, memory_of_host, node

    for _ in batches:
        if (node(), executor_pid()) not in taken:
            address = ensure_host(run, replica, token, executor_pid(), tcp=True, memory=memory_of_host(beside))
            yield pa.RecordBatch.from_pydict({"address": [json.dumps(asdict(address))]})

"""The executors of a Spark application on a cluster: which are registered, and waiting for them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

FIRST, PATIENCE = 60.0, 10.0
"""Seconds that the first executor has to register, and then the others."""
QUIET = 2.0
"""Seconds without another executor after which no more are expected."""


@dataclass(frozen=True)
class Executor:
    """An executor that is registered."""

    name: str
    node: str
    cores: int


def registered(spark: Any) -> list[Executor]:
    """The executors that are registered now."""
    # Spark's public tracker of executors does not report their cores.
    found = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    each = [found.apply(number) for number in range(found.size())]
    return [
        Executor(str(one.id()), str(one.hostPort()).rpartition(":")[0], int(one.totalCores()))
        for one in each
        if one.id() != "driver" and one.totalCores() > 0
    ]


def promised_cores(spark: Any) -> int | None:
    """The number of cores that the settings give to the application; None if they leave it to the cluster."""
    conf = spark.sparkContext.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return None
    instances, cores = conf.get("spark.executor.instances"), conf.get("spark.executor.cores")
    return int(instances) * int(cores) if instances and cores else None


def await_executors(
    spark: Any,
    cores: int | None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> list[Executor]:
    """Waits until the executors have so many cores (None: those that the settings promise), or no more seem to come;
    returns those that are registered."""
    wanted = cores or promised_cores(spark)
    first = newest = clock()
    count = 0
    while True:
        found, now = registered(spark), clock()
        if len(found) != count:
            first = first if count else now
            count, newest = len(found), now
        enough = wanted is not None and sum(each.cores for each in found) >= wanted
        late = now - newest >= QUIET or now - first >= PATIENCE if found else now - first >= FIRST
        if enough or late:
            return found
        sleep(0.05)


def hosts_per_node(executors: Sequence[Executor], replicas: int) -> int:
    """How many hosts share a node if the executors have equally many.

    >>> one, two, three = Executor("0", "a", 2), Executor("1", "b", 2), Executor("2", "b", 2)
    >>> hosts_per_node([one, two], 2), hosts_per_node([one, two], 3), hosts_per_node([one, two, three], 3)
    (1, 2, 2)
    >>> hosts_per_node([], 3)
    3
    """
    if not executors:
        return replicas
    on_one = max(Counter(each.node for each in executors).values())
    return min(replicas, on_one * -(-replicas // len(executors)))

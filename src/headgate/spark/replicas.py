"""How many replicas a session gets, and where queries run when the queries change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.graph.queries import Query
from headgate.spark.exchange import divided
from headgate.spark.placement import Placement
from headgate.spark.placing import place
from headgate.spark.plan import Plan


def default_replicas(spark: Any) -> int:
    """The number of replicas if the user gives none: one in local mode, on a cluster one per core of its executors."""
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return 1
    conf = context.getConf()
    instances, cores = conf.get("spark.executor.instances"), conf.get("spark.executor.cores")
    if instances is not None:
        return int(instances) * int(cores or 1)
    return int(context.defaultParallelism)


def hosts_per_node(spark: Any, replicas: int) -> int:
    """How many of the replicas' hosts share a node: all in local mode, on a cluster those of one executor."""
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        return replicas
    # The status has an entry for the driver.
    executors = max(1, context._jsc.sc().getExecutorMemoryStatus().size() - 1)
    return -(-replicas // int(executors))


def parts_of(queries: Sequence[Query], replicas: int) -> tuple[Query, ...]:
    """The queries as several replicas run them: divided at exchanges. Empty if none is divided."""
    found = [part for query in queries for part in divided(query).parts] if replicas > 1 else []
    return tuple(found) if len(found) > len(queries) else ()


def placed(
    queries: Sequence[Query], replicas: int, before: Plan | None, costs: Mapping[str, float] | None = None
) -> Placement | None:
    """Where queries run: the keys, and the queries of an earlier plan, stay where they are if the number of replicas is
    the same. None if there is one replica."""
    if replicas == 1:
        return None
    found = place(queries, replicas, costs)
    if before is None or before.placement is None or before.replicas != replicas:
        return found
    earlier = {query.name: query for query in before.run_queries}
    routes = before.placement.routes
    kept = {
        query.name: routes[query.name]
        for query in queries
        if query.name in earlier and earlier[query.name].plan == query.plan
    }
    now = {query.name: kept.get(query.name, found.routes[query.name]) for query in queries}
    return Placement(replicas, now, before.placement.owners)

"""How many replicas a session gets, and where queries run when the queries change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.graph.operators.source import INTERNAL
from headgate.graph.queries import Query
from headgate.spark.exchange import Division, divided, divided_into
from headgate.spark.executors import await_executors, hosts_per_node, promised_cores, registered
from headgate.spark.placement import Placement
from headgate.spark.placing import place, worth_splitting
from headgate.spark.plan import Plan


def default_replicas(spark: Any) -> int:
    """The number of replicas if the user gives none: one in local mode, on a cluster one per core of its executors, for
    which it waits."""
    if str(spark.sparkContext.master).startswith("local"):
        return 1
    return promised_cores(spark) or max(1, sum(each.cores for each in await_executors(spark, None)))


def hosts_on_a_node(spark: Any, replicas: int) -> int:
    """How many of the replicas' hosts share a node: all in local mode, on a cluster those of a node's executors."""
    if str(spark.sparkContext.master).startswith("local"):
        return replicas
    return hosts_per_node(registered(spark), replicas)


def parts_of(
    queries: Sequence[Query], replicas: int, before: Plan | None = None, costs: Mapping[str, float] | None = None
) -> tuple[Query, ...]:
    """The queries as several replicas run them: divided at exchanges. Empty if none is divided.

    Rows cross an exchange only for queries that cost enough. `before` is an earlier plan: as long as the number of
    replicas is the same, its queries stay divided as they are, so that their state need not move.
    """
    if replicas == 1:
        return ()
    rows = set(worth_splitting(queries, replicas, costs))
    known = {each.name for each in before.queries} if before is not None and before.replicas == replicas else ()
    found: list[Query] = []
    for query in queries:
        if before is not None and query.name in known:
            found += _divided_as(query, before).parts
        else:
            found += divided(query, query.name in rows).parts
    return tuple(found) if len(found) > len(queries) else ()


def _divided_as(query: Query, before: Plan) -> Division:
    """A query divided as it is in a plan. If it has changed since, its rows cross only where they did."""
    names = {part.name for part in before.run_queries if part.name.partition(INTERNAL)[0] == query.name}
    if (found := divided_into(query, names)) is not None:
        return found
    changed = divided(query)
    return changed if {part.name for part in changed.parts} <= names else divided(query, rows=False)


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
    found = place(queries, replicas, costs, kept)
    now = {query.name: kept.get(query.name, found.routes[query.name]) for query in queries}
    return Placement(replicas, now, before.placement.owners)

"""Decides where queries run: which are split by which keys, and which replica has which of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query
from headgate.spark.placement import Placement, Route, streams_of


def place(queries: Sequence[Query], replicas: int, costs: Mapping[str, float] | None = None) -> Placement:
    """The placement of queries on a number of replicas.

    `costs`: measured seconds of work per second, by query; an operator that several queries share counts a part for
    each. Queries without a measured cost count as the defaults of their operators say.
    """
    if replicas == 1:
        return Placement.single(tuple(queries))
    known = estimated_costs(queries) | dict(costs or {})
    homes = _whole(queries, replicas, known)
    return Placement(
        replicas,
        {query.name: dict.fromkeys(streams_of(query.plan), Route.to(homes[query.name])) for query in queries},
    )


def estimated_costs(queries: Iterable[Query]) -> dict[str, float]:
    """The cost of each query by the defaults of its operators, for one row of each stream; shared operators count a
    part for each user."""
    users: dict[Operator, int] = {}
    plans = {query.name: list(query.plan.walk()) for query in queries}
    for nodes in plans.values():
        for node in nodes:
            users[node] = users.get(node, 0) + 1
    found: dict[str, float] = {}
    for name, nodes in plans.items():
        rows: dict[Operator, float] = {}
        total = 0.0
        for node in nodes:
            taken = sum(rows[each] for each in node.inputs) if node.inputs else 1.0
            rows[node] = taken * (node.selectivity if node.inputs else 1.0)
            total += taken * node.cost / users[node] if node.inputs else 0.0
        found[name] = total
    return found


def _whole(queries: Sequence[Query], replicas: int, costs: Mapping[str, float]) -> dict[str, int]:
    """The replica of each query that runs whole: queries that share operators beyond the source stay together, and the
    most expensive groups are placed first, each on the replica with the least cost so far (LPT; Graham, 1969)."""
    load = [0.0] * replicas
    homes: dict[str, int] = {}
    for group in sorted(_sharing(queries), key=lambda names: (-sum(costs[name] for name in names), names)):
        home = min(range(replicas), key=lambda replica: (load[replica], replica))
        # Queries that only pass rows on cost nothing by default, but are to be spread too.
        load[home] += sum(max(costs[name], 1e-9) for name in group)
        homes.update(dict.fromkeys(group, home))
    return homes


def _sharing(queries: Sequence[Query]) -> list[list[str]]:
    """The queries in groups that share operators."""
    leader: dict[str, str] = {query.name: query.name for query in queries}

    def lead(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    first: dict[Operator, str] = {}
    for query in queries:
        for node in query.plan.walk():
            if not isinstance(node, Source):
                other = first.setdefault(node, query.name)
                leader[lead(query.name)] = lead(other)
    groups: dict[str, list[str]] = {}
    for query in queries:
        groups.setdefault(lead(query.name), []).append(query.name)
    return [sorted(group) for group in groups.values()]

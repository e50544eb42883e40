"""Which edges of a network are held because the queries behind them are paused.

An operator that serves only paused queries does not run: its edges are *held*. A held edge has a queue whatever the
policy's cut is, and the scheduler does not see what waits in it. If one of the paused queries keeps its rows, they
wait there, counted and spilled like all others; otherwise they are dropped, and only the last watermark waits. If a
paused query has the same result operator as a running one, its outbox gets the results and keeps or drops them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.graph.queries import Query
from headgate.scheduling import Topology


@dataclass(frozen=True)
class Held:
    """`edges` that are held; `dropping`: those whose rows are dropped, each with the queries that lose them."""

    edges: frozenset[int] = frozenset()
    dropping: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def held(topology: Topology, queries: Mapping[str, Query]) -> Held:
    """The edges that paused queries hold."""
    pauses = [queries[query.name].pause for query in topology.queries]
    if not any(pauses):
        return Held()
    edges: set[int] = set()
    dropping: dict[int, tuple[str, ...]] = {}
    for edge in topology.edges:
        served = topology.serves[edge.consumer]
        if all(pauses[q] for q in served):
            edges.add(edge.id)
            if all(pauses[q] == "drop" for q in served):
                dropping[edge.id] = tuple(topology.queries[q].name for q in served)
    return Held(frozenset(edges), dropping)

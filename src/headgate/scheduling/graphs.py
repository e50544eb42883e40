"""The topology of a shared graph: the schedulers' view of the queries."""

from __future__ import annotations

from headgate.graph.operators import Source
from headgate.graph.shared import SharedGraph
from headgate.scheduling.topology import Edge, Topology, TopologyClass, TopologyQuery


def topology_of(graph: SharedGraph) -> tuple[Topology, list[int]]:
    """The topology, and the graph's number of each of its operators.

    A source is no operator: its edges come from the stream. Only if a query's result is the stream itself, the source
    is in the topology, as the operator that emits it.
    """
    nodes = graph.operators
    streams = {n: node.stream for n, node in nodes.items() if isinstance(node, Source)}
    shown = {graph.number(query.plan) for query in graph.queries.values()}
    numbers = [n for n in nodes if n not in streams or n in shown]
    place = {n: index for index, n in enumerate(numbers)}
    edges: list[Edge] = []
    for n in numbers:
        for port, producer in enumerate((n,) if n in streams else graph.inputs(n)):
            stream = streams.get(producer)
            edges.append(Edge(len(edges), None if stream else place[producer], place[n], port, stream))
    queries = tuple(
        TopologyQuery(
            q.name, TopologyClass(q.cls.name, float(q.cls.priority)), place[graph.number(q.plan)], q.spec.longest
        )
        for q in graph.queries.values()
    )
    names = tuple(f"{nodes[n].kind} {n}" for n in numbers)
    return Topology(names, tuple(nodes[n].kind for n in numbers), tuple(edges), queries), numbers

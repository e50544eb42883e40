"""Where rows are shed: at the operators that read a stream, if all the queries that they serve are shed."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.scheduling import Topology


def shed_at(topology: Topology, shed: Mapping[str, float]) -> dict[int, float]:
    """The share of rows that each leaf operator drops, by its number: the minimum over the queries that it serves.

    >>> topology = Topology.of({"a": ["s"], "b": ["s"], "c": ["a"]}, queries={"p": "c", "q": "b"})
    >>> shed_at(topology, {"p": 0.5})
    {0: 0.5}
    """
    found: dict[int, float] = {}
    if not shed:
        return found
    for edges in topology.stream_edges.values():
        for edge in edges:
            operator = topology.edges[edge].consumer
            share = min((shed.get(topology.queries[q].name, 0.0) for q in topology.serves[operator]), default=0.0)
            if share > 0:
                found[operator] = share
    return found

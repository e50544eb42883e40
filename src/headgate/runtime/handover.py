"""Which waiting rows a query takes along when its plan changes.

The operators that both plans have keep their queues. Rows that wait in front of the others go to the operators that
take their place. Only rows between two operators that go must be processed first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headgate.graph.operators import Operator, Source
from headgate.graph.shared import SharedGraph
from headgate.runtime.dataflow import edge_key, key_of


@dataclass(frozen=True)
class Handover:
    """What happens to waiting rows. Edges are named by their keys (`dataflow.edge_key`).

    - `moved`: edges in front of operators that go, each with the edge that gets what waits there
    - `inner`: edges between operators that go
    - `successors`: operators that get waiting rows, each with the one in front of which they waited
    """

    moved: Mapping[str, str]
    inner: frozenset[str]
    successors: Mapping[Operator, Operator]


def handover(graph: SharedGraph, name: str, new: Operator) -> Handover | None:
    """What happens to the rows that wait for a query which gets another plan.

    None if rows would reach the new operators twice or never, because other queries run a part of one plan only, or
    because several operators of a plan that change read the same rows.
    """
    old = graph.queries[name].plan
    before, after = _operators(old), _operators(new)
    going = {node for node in before - after if graph.users(graph.number(node)) == {name}}
    coming = after - set(graph.operators.values())
    if before - going != after - coming or old not in going or new not in coming:
        return None
    left, entered = _entrances(going), _entrances(coming)
    if left is None or entered is None or left.keys() != entered.keys():
        return None
    inner = (
        edge_key(producer, node, port)
        for node in going
        for port, producer in enumerate(node.inputs)
        if producer in going
    )
    pairs = [(left[producer], entered[producer]) for producer in left]
    return Handover(
        {edge_key(*gone): edge_key(*come) for gone, come in pairs},
        frozenset(inner),
        {come[1]: gone[1] for gone, come in pairs},
    )


def _operators(plan: Operator) -> set[Operator]:
    return {node for node in plan.walk() if not isinstance(node, Source)}


_Entrance = tuple[Operator, Operator, int]
"""An edge by which rows reach operators that change: the producer, which stays, the consumer and its port."""


def _entrances(changing: Collection[Operator]) -> dict[str, _Entrance] | None:
    """The edges by which rows reach these operators from others, by their producers; None if one has several."""
    found: dict[str, _Entrance] = {}
    for node in changing:
        for port, producer in enumerate(node.inputs):
            if producer not in changing:
                name = producer.stream if isinstance(producer, Source) else key_of(producer)
                if name in found:
                    return None
                found[name] = (producer, node, port)
    return found

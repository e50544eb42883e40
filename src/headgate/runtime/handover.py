"""Which waiting rows a query takes along when its plan changes.

The operators that both plans have keep their queues. Rows that wait in front of the others go to the operators that
take their place. Only rows between two operators that go must be processed first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headgate.graph.operators import Operator, Source
from headgate.graph.shared import SharedGraph
from headgate.runtime.dataflow import edge_key


@dataclass(frozen=True)
class Handover:
    """Edges by their keys (`dataflow.edge_key`). `moved`: those in front of operators that go, each with the edge that
    gets what waits there; `inner`: those between operators that go."""

    moved: Mapping[str, str]
    inner: frozenset[str]


def handover(graph: SharedGraph, name: str, new: Operator) -> Handover | None:
    """What happens to the rows that wait for a query which gets another plan.

    None if rows would reach the new operators twice or never, because other queries run a part of one plan only, or
    because several operators of a plan that change read the same rows.
    """
    old = graph.queries[name].plan
    before, after = _operators(old), _operators(new)
    running = set(graph.operators.values())
    going = {node for node in before - after if graph.users(graph.number(node)) == {name}}
    coming = after - running
    if before - going != after - coming or old not in going or new not in coming:
        return None
    left, entered = _entrances(going), _entrances(coming)
    if left is None or entered is None or left.keys() != entered.keys():
        return None
    inner = {
        edge_key(producer, node, port)
        for node in going
        for port, producer in enumerate(node.inputs)
        if producer in going
    }
    return Handover({left[producer]: entered[producer] for producer in left}, frozenset(inner))


def _operators(plan: Operator) -> set[Operator]:
    return {node for node in plan.walk() if not isinstance(node, Source)}


def _entrances(changing: Collection[Operator]) -> dict[str, str] | None:
    """The edges by which rows reach these operators from others: by their producers. None if one has several."""
    found: dict[str, str] = {}
    for node in changing:
        for port, producer in enumerate(node.inputs):
            if producer not in changing:
                key = edge_key(producer, node, port)
                if found.setdefault(_from(key), key) != key:
                    return None
    return found


def _from(key: str) -> str:
    return key.partition(">")[0]

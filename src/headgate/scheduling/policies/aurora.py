"""Aurora's trains: superboxes in turn, each traversed for latency, cost or memory (002's ref. 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import Grant, GrantLimits, Policy, Selector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.view import View
from headgate.scheduling.yields import downstream, memory_slope, within

Traversal = list[int]


class SuperboxSelector(Selector):
    """Superboxes with ready units take turns; a turn is one traversal, in which every ready unit on it runs a train."""

    def __init__(self, view: View, units: Units, members: Sequence[int] | None, policy: Trains) -> None:
        self._view, self._units, self._policy = view, units, policy
        self._rows = view.queues.rows
        self._members = set(range(len(units)) if members is None else members)
        self._busy: set[int] = set()
        self._box_of: dict[int, int] = {}
        for unit in sorted(self._members):
            served = sorted(q for o in units[unit].operators for q in view.topology.serves[o])
            # A shared operator belongs to the superbox of the first query it serves.
            self._box_of[unit] = served[0] if served else -1
        self._ready: dict[int, set[int]] = {box: set() for box in set(self._box_of.values())}
        self._turn: deque[int] = deque()
        self._rest: Traversal = []
        self._paths: dict[int, Traversal] = {}
        self.refresh(view, 0.0)
        for unit in self._members:
            self.arrived(unit)

    def arrived(self, unit: int) -> None:
        if any(self._rows[e] > 0 for e in self._units[unit].entries):
            box = self._box_of[unit]
            if not self._ready[box]:
                self._turn.append(box)
            self._ready[box].add(unit)

    def next(self, now: float) -> Grant | None:
        # At most two rounds: the present traversal may have passed the only ready unit already.
        for _ in range(2 * len(self._turn) + 2):
            while self._rest:
                unit = self._rest.pop()
                if unit in self._ready[self._box_of[unit]] and self._units[unit].component not in self._busy:
                    self._ready[self._box_of[unit]].discard(unit)
                    self._busy.add(self._units[unit].component)
                    return Grant(unit, self._policy.rows, self._policy.quantum)
            if not self._turn:
                return None
            box = self._turn.popleft()
            if self._ready[box]:
                self._turn.append(box)
                self._rest = self._paths[box][::-1]
        return None

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        self._busy.discard(self._units[unit].component)
        box = self._box_of[unit]
        if not self._ready[box] and box in self._turn:
            self._turn.remove(box)
        self.arrived(unit)

    def refresh(self, view: View, now: float) -> None:
        for box in self._ready:
            own = [u for u in sorted(self._members) if self._box_of[u] == box]
            self._paths[box] = self._policy.traversal(view, self._units, own)


@register("aurora")
@dataclass
class Trains(GrantLimits, Policy):
    """Superboxes take turns; in a turn every ready box runs a train, in an order for latency, cost or memory.

    `by=cost`: leaves to root, so every box is called once for all its tuples; `by=latency`: boxes by the time to the
    output, each followed by the boxes downstream of it; `by=memory`: boxes by bytes freed per second.
    """

    name: ClassVar[str] = "train"
    by: str = parameter("choice", "latency", "what a traversal minimizes", ("latency", "cost", "memory"))
    interval: float = 1.0

    def cut(self, view: View) -> Cut:
        return Cut.every(view.topology)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return SuperboxSelector(view, units, members, self)

    def traversal(self, view: View, units: Units, own: Sequence[int]) -> Traversal:
        """The order in which a superbox's units run in one turn."""
        place = {o: i for i, o in enumerate(view.topology.order)}
        upstream_first = sorted(own, key=lambda u: min(place[o] for o in units[u].operators))
        if self.by == "cost":
            return upstream_first
        if self.by == "memory":
            return sorted(own, key=lambda u: -memory_slope(within(view, units, units[u])))
        cost, results = downstream(view)

        def output_cost(unit: int) -> float:
            first = units[unit].operators[0]
            return cost[first] / results[first] if results[first] > 0 else inf

        order: Traversal = []
        for unit in sorted(own, key=output_cost):
            order.append(unit)
            below = _below(view, units, unit)
            order += [u for u in upstream_first if u in below]
        return order


def _below(view: View, units: Units, unit: int) -> set[int]:
    topology = view.topology
    reached: set[int] = set()
    todo = list(units[unit].operators)
    while todo:
        for edge in topology.outputs[todo.pop()]:
            consumer = topology.edges[edge].consumer
            if consumer not in reached:
                reached.add(consumer)
                todo.append(consumer)
    return {u.id for u in units.units if reached & set(u.operators)} - {unit}

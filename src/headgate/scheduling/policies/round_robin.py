"""Round robin and weighted round robin: units take turns; a weight is a longer turn (002 §2.1, 003 §4.1.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from headgate.scheduling.circle import CircleSelector
from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import GrantLimits, Policy, Selector
from headgate.scheduling.ranked import TurnSelector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.view import View


@register("round-robin")
@dataclass
class RoundRobin(GrantLimits, Policy):
    """Every ready unit in turn, for `rows` rows or a `quantum` of time.

    With `visits=every`, units without rows get their turn too while any row waits, as in STREAM (004 §3): the turn
    takes no row and costs a switch.
    """

    name: ClassVar[str] = "rr"
    quantum: float = parameter("seconds", 0.01, "time of a turn")
    visits: str = parameter("choice", "ready", "which units get a turn", ("ready", "every"))
    interval: float = inf

    def cut(self, view: View) -> Cut:
        return Cut.every(view.topology)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        if self.visits == "every":
            return CircleSelector(view, units, members, self.rows, self.turns)
        return TurnSelector(view, units, members, self.rows, self.turns)

    def turns(self, view: View, units: Units) -> Sequence[float]:
        """The length of each unit's turn, in seconds."""
        return [self.quantum] * len(units)


@register("weighted-round-robin")
@dataclass
class WeightedRoundRobin(RoundRobin):
    """Round robin with turns in proportion to weights; the mean turn is a `quantum`.

    `by=class`: the weight is the priority of the unit's class (004 §4.1); `by=place`: units that read a
    stream, and joins, get double turns (003 §4.1.1).
    """

    name: ClassVar[str] = "wrr"
    by: str = parameter("choice", "class", "source of the weights", ("class", "place"))

    def turns(self, view: View, units: Units) -> Sequence[float]:
        weights = [self._weight(view, units, u) for u in range(len(units))]
        mean = sum(weights) / len(weights) if weights else 1.0
        return [self.quantum * w / mean for w in weights]

    def _weight(self, view: View, units: Units, unit: int) -> float:
        topology = view.topology
        if self.by == "class":
            return topology.classes[units[unit].cls].priority
        leaf = any(topology.edges[e].producer is None for e in units[unit].entries)
        join = any(len(topology.inputs[o]) > 1 for o in units[unit].operators)
        return (2.0 if leaf else 1.0) * (2.0 if join else 1.0)

"""MSS: the maximum-slope segment of waiting tuples, optimal when every tuple's cost is known (001 §5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.errors import PolicyError
from headgate.scheduling.policy import Grant, Policy, Selector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.view import Oracle, View


class SteepestSelector(Selector):
    """One tuple at a time from the queue whose waiting tuples begin with the steepest segment.

    Not O(log units): it reads the tuples themselves, as only a simulation can.
    """

    watches_growth = True

    def __init__(
        self, view: View, units: Units, members: Sequence[int] | None, oracle: Oracle, ahead: int, memory: bool
    ) -> None:
        self._oracle = oracle
        self._ahead = ahead
        self._memory = memory
        self._units = units
        self._rows = view.queues.rows
        self._slopes: dict[int, float] = {}
        self._stale = set(range(len(units)) if members is None else members)
        self._running: set[int] = set()
        self._busy: set[int] = set()

    def arrived(self, unit: int) -> None:
        self._stale.add(unit)

    changed = arrived

    def next(self, now: float) -> Grant | None:
        for unit in self._stale:
            self._slopes[unit] = self._slope(unit)
        self._stale.clear()
        free = [u for u in self._slopes if self._units[u].component not in self._busy]
        best = max(free, key=lambda u: (self._slopes[u], -u), default=None)
        if best is None or self._slopes[best] == -inf:
            return None
        self._busy.add(self._units[best].component)
        return Grant(best, rows=1)

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        self._busy.discard(self._units[unit].component)
        self._stale.add(unit)

    def refresh(self, view: View, now: float) -> None:
        """Does nothing: the tuples themselves are the rank."""

    def _slope(self, unit: int) -> float:
        """The steepest line from the head of the queue to the end of any tuple in it."""
        best = -inf
        time = gain = 0.0
        for tuple_ in self._oracle.waiting(self._units[unit].entries[0], self._ahead):
            time += tuple_.cost
            gain += tuple_.bytes if self._memory else tuple_.rows
            best = max(best, gain / time)
        return best


@register()
@dataclass
class MaximumSlope(Policy):
    """The steepest segment of waiting tuples first, looking at `ahead` tuples of each queue."""

    name: ClassVar[str] = "mss"
    of: str = parameter("choice", "latency", "which slope", ("latency", "memory"))
    ahead: int = parameter("count", 1000, "tuples it looks ahead in each queue")
    interval: float = inf

    def cut(self, view: View) -> Cut:
        return Cut(Cut.every(view.topology).queued, per_entry=True)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        if view.oracle is None:
            raise PolicyError(
                f"policy '{self.name}' needs to know every tuple's cost in advance; it runs in simulation only"
            )
        return SteepestSelector(view, units, members, view.oracle, self.ahead, self.of == "memory")


@register()
@dataclass
class TupleGreedy(MaximumSlope):
    """Compares only the head tuples of the queues (001 §5): the baseline that MSS improves on."""

    name: ClassVar[str] = "tuple-greedy"
    ahead: int = parameter("count", 1, "tuples it looks ahead in each queue")

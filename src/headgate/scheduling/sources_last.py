"""A selector that reads the streams only when no row read before is waiting (004 §3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from headgate.scheduling.cut import Units
from headgate.scheduling.policy import Grant, Selector
from headgate.scheduling.ranked import Rank, RankSelector
from headgate.scheduling.view import View


class SourcesLastSelector(Selector):
    """Two kinds of units: sources, which read streams only, and all others, which are ranked.

    "Groups all source operators together and schedules the source operator set only when there are no tuples
    waiting in the input queues of the operational operators" (004 §3). Once begun, all ready units of the set are
    granted before any other unit, so no stream overtakes another. Every unit must be a separate component, as it is if
    every edge is queued.
    """

    def __init__(
        self,
        view: View,
        units: Units,
        members: Sequence[int] | None,
        rank: Rank,
        rows: float = inf,
        seconds: float = inf,
    ) -> None:
        edges = view.topology.edges
        chosen = range(len(units)) if members is None else members
        self._rows = view.queues.rows
        self._entries = [unit.entries for unit in units.units]
        self._is_source = [all(edges[e].producer is None for e in unit.entries) for unit in units.units]
        self._others = RankSelector(view, units, [u for u in chosen if not self._is_source[u]], rank, rows, seconds)
        self._grants = [Grant(unit.id, rows, seconds) for unit in units.units]
        self._waiting: set[int] = set()
        self._running: set[int] = set()
        self._set: deque[int] = deque()
        for unit in chosen:
            if self._is_source[unit]:
                self.arrived(unit)

    def arrived(self, unit: int) -> None:
        if not self._is_source[unit]:
            self._others.arrived(unit)
        elif unit not in self._running and any(self._rows[e] > 0 for e in self._entries[unit]):
            self._waiting.add(unit)

    def next(self, now: float) -> Grant | None:
        if not self._set:
            grant = self._others.next(now)
            if grant is not None:
                return grant
            self._set.extend(sorted(self._waiting))
        if not self._set:
            return None
        unit = self._set.popleft()
        self._waiting.discard(unit)
        self._running.add(unit)
        return self._grants[unit]

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        if self._is_source[unit]:
            self._running.discard(unit)
            self.arrived(unit)
        else:
            self._others.finished(unit, now, elapsed, rows_in, rows_out)

    def refresh(self, view: View, now: float) -> None:
        self._others.refresh(view, now)

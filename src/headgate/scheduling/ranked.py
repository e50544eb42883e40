"""Selectors that take the highest rank first: static ranks, and ranks that follow the queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from headgate.scheduling.cut import Unit, Units
from headgate.scheduling.policy import Grant, Selector
from headgate.scheduling.view import Queues, View

Rank = Callable[[View, Units], Sequence[float]]


def _components(units: Units) -> tuple[list[int], list[bool], list[list[int]]]:
    """The component of each unit; and of each component whether it runs now, and which units wait for that."""
    of = [unit.component for unit in units.units]
    count = max(of, default=-1) + 1
    return of, [False] * count, [[] for _ in range(count)]


class RankSelector(Selector):
    """Ranks that change only with the statistics: a heap of the ready units, highest rank first.

    Ties go to the unit further upstream (lower id). The heap holds places in the order of all ranks: small numbers are
    all that a decision looks at, which counts when operators have used the processor's cache in between.
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
        self._units = units
        self._rank = rank
        self._rows = view.queues.rows
        self._entries = [unit.entries for unit in units.units]
        self._members = range(len(units)) if members is None else members
        self._place: list[int] = []
        self._unit_at: list[int] = []
        self._order(view)
        self._grants = [Grant(unit.id, rows, seconds) for unit in units.units]
        self._of, self._busy, self._parked = _components(units)
        self._waiting = [False] * len(units)
        self._heap: list[int] = []
        for unit in self._members:
            self.arrived(unit)

    def _order(self, view: View) -> None:
        ranks = self._rank(view, self._units)
        self._unit_at = sorted(range(len(ranks)), key=lambda unit: -ranks[unit])
        self._place = [0] * len(ranks)
        for place, unit in enumerate(self._unit_at):
            self._place[unit] = place

    def arrived(self, unit: int) -> None:
        if self._waiting[unit]:
            return
        rows = self._rows
        # A loop and not `any`, which costs twice as much: this is the hot path.
        for e in self._entries[unit]:
            if rows[e] > 0:
                self._waiting[unit] = True
                heappush(self._heap, self._place[unit])
                return

    def next(self, now: float) -> Grant | None:
        heap, busy, of, rows = self._heap, self._busy, self._of, self._rows
        while heap:
            unit = self._unit_at[heappop(heap)]
            component = of[unit]
            if busy[component]:
                self._parked[component].append(unit)
                continue
            self._waiting[unit] = False
            for e in self._entries[unit]:
                if rows[e] > 0:
                    busy[component] = True
                    return self._grants[unit]
        return None

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        component = self._of[unit]
        self._busy[component] = False
        if parked := self._parked[component]:
            for other in parked:
                heappush(self._heap, self._place[other])
            parked.clear()
        self.arrived(unit)

    def refresh(self, view: View, now: float) -> None:
        waiting = [self._unit_at[place] for place in self._heap]
        self._order(view)
        self._heap = [self._place[unit] for unit in waiting]
        heapify(self._heap)


Live = Callable[[Queues, Unit], float]


class LiveSelector(Selector):
    """Ranks that follow the queues (length, age): a heap with lazy invalidation.

    Every change pushes a new entry; an entry that is not its unit's newest is dropped when it surfaces.
    `growth=False` if the rank does not depend on rows behind the oldest. Ties go to the unit further upstream
    (lower id), or, if `downstream`, to the one further downstream: a row begun is pushed through.
    """

    def __init__(
        self,
        view: View,
        units: Units,
        members: Sequence[int] | None,
        rank: Live,
        rows: float = inf,
        seconds: float = inf,
        growth: bool = True,
        downstream: bool = False,
    ) -> None:
        self.watches_growth = growth
        self._tie = [-unit.id if downstream else unit.id for unit in units.units]
        self._queues = view.queues
        self._units = units.units
        self._rank = rank
        self._grants = [Grant(unit.id, rows, seconds) for unit in units.units]
        self._of, self._busy, self._parked = _components(units)
        self._newest = [0] * len(units)
        self._heap: list[tuple[float, int, int, int]] = []
        self._members = range(len(units)) if members is None else members
        for unit in self._members:
            self.arrived(unit)

    def arrived(self, unit: int) -> None:
        key = -self._rank(self._queues, self._units[unit])
        version = self._newest[unit] = self._newest[unit] + 1
        if key == inf:
            return
        heappush(self._heap, (key, self._tie[unit], unit, version))
        # Stale entries are at most a constant factor of the live ones, so a call stays O(log units).
        if len(self._heap) > 64 + 8 * len(self._newest):
            self._heap = [entry for entry in self._heap if entry[3] == self._newest[entry[2]]]
            heapify(self._heap)

    def changed(self, unit: int) -> None:
        if not self._busy[self._of[unit]]:
            self.arrived(unit)

    def next(self, now: float) -> Grant | None:
        heap, newest = self._heap, self._newest
        while heap:
            _, _, unit, version = heappop(heap)
            if version != newest[unit]:
                continue
            component = self._of[unit]
            if self._busy[component]:
                self._parked[component].append(unit)
                continue
            newest[unit] += 1
            self._busy[component] = True
            return self._grants[unit]
        return None

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        component = self._of[unit]
        self._busy[component] = False
        if parked := self._parked[component]:
            for waiting in set(parked) - {unit}:
                self.arrived(waiting)
            parked.clear()
        self.arrived(unit)

    def refresh(self, view: View, now: float) -> None:
        """Nothing to do: the ranks are live."""


def oldest(queues: Queues, unit: Unit) -> float:
    """Minus the arrival time of the unit's oldest row (−inf when it has none)."""
    entries = unit.entries
    if len(entries) == 1:
        return -queues.oldest[entries[0]]
    return -min([queues.oldest[e] for e in entries])


def length(queues: Queues, unit: Unit) -> float:
    """The rows that wait for the unit (−inf when there are none)."""
    entries = unit.entries
    if len(entries) == 1:
        return queues.rows[entries[0]] or -inf
    return sum([queues.rows[e] for e in entries]) or -inf


class TurnSelector(Selector):
    """Units take turns in the order in which they became ready; nobody starves."""

    def __init__(
        self,
        view: View,
        units: Units,
        members: Sequence[int] | None,
        rows: float = inf,
        seconds: Callable[[View, Units], Sequence[float]] | None = None,
    ) -> None:
        self._units = units
        self._limit = rows
        self._seconds = seconds
        self._rows = view.queues.rows
        self._entries = [unit.entries for unit in units.units]
        self._of, self._busy, self._parked = _components(units)
        self._waiting = [False] * len(units)
        self._turn: list[tuple[int, int]] = []
        self._count = 0
        self._members = range(len(units)) if members is None else members
        self.refresh(view, 0.0)
        for unit in self._members:
            self.arrived(unit)

    def arrived(self, unit: int) -> None:
        if self._waiting[unit]:
            return
        rows = self._rows
        for e in self._entries[unit]:
            if rows[e] > 0:
                self._waiting[unit] = True
                self._count += 1
                heappush(self._turn, (self._count, unit))
                return

    def next(self, now: float) -> Grant | None:
        turns, busy, of, rows = self._turn, self._busy, self._of, self._rows
        while turns:
            turn, unit = heappop(turns)
            component = of[unit]
            if busy[component]:
                self._parked[component] += (turn, unit)
                continue
            self._waiting[unit] = False
            for e in self._entries[unit]:
                if rows[e] > 0:
                    busy[component] = True
                    return self._grants[unit]
        return None

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        component = self._of[unit]
        self._busy[component] = False
        if parked := self._parked[component]:
            # A unit that had to wait for its component keeps its place in the round.
            for turn, waiting in zip(parked[::2], parked[1::2], strict=True):
                heappush(self._turn, (turn, waiting))
            parked.clear()
        self.arrived(unit)

    def refresh(self, view: View, now: float) -> None:
        seconds = self._seconds(view, self._units) if self._seconds else [inf] * len(self._units)
        self._grants = [Grant(u.id, self._limit, seconds[u.id]) for u in self._units.units]

"""Selectors that grant the highest rank first: static ranks, turns, and ranks that follow the queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from headgate.scheduling.cut import Unit, Units
from headgate.scheduling.policy import Grant, Selector
from headgate.scheduling.view import Queues, View

Rank = Callable[[View, Units], Sequence[float]]
"""A figure for each unit: its rank, or the seconds of its turn."""


class Component:
    """Units that share an operator: one of them runs at a time. `parked` units became ready while another one ran."""

    __slots__ = ("busy", "parked")

    def __init__(self) -> None:
        self.busy = False
        self.parked: list[UnitState] = []


class UnitState:
    """All fields that a decision about a unit reads, in one object: operators evict the processor's cache in between.

    `waiting`: the unit is in the selector's heap. `place` is its position in the order of ranks or turns; an entry of a
    live heap is valid only if it carries the unit's `version`.
    """

    __slots__ = ("component", "entries", "grant", "place", "unit", "version", "waiting")

    def __init__(self, unit: Unit, component: Component, grant: Grant) -> None:
        self.unit = unit.id
        self.entries = unit.entries
        self.component = component
        self.grant = grant
        self.waiting = False
        self.place = 0
        self.version = 0


def unit_states(units: Units, rows: float = inf, seconds: float = inf) -> list[UnitState]:
    """A state for each unit; every grant allows `rows` rows and `seconds` of time."""
    components = [Component() for _ in range(max([unit.component for unit in units.units], default=-1) + 1)]
    return [UnitState(unit, components[unit.component], Grant(unit.id, rows, seconds)) for unit in units.units]


class ReadyHeap(Selector):
    """A heap of the ready units by their places: the unit with the lowest place is granted first.

    `_order` has the unit at each place; a subclass gives the places. A unit that became ready while its component was
    busy keeps its place.
    """

    _order: Sequence[UnitState] | dict[int, UnitState]

    def __init__(self, view: View, units: Units, rows: float, seconds: float) -> None:
        self._units = units
        self._rows = view.queues.rows
        self._states = unit_states(units, rows, seconds)
        self._heap: list[int] = []

    def _wait(self, state: UnitState) -> None:
        """Puts the unit into the heap if it has rows."""
        rows = self._rows
        # A loop and not `any`, which costs twice as much: this is the hot path.
        for e in state.entries:
            if rows[e] > 0:
                state.waiting = True
                heappush(self._heap, state.place)
                return

    def arrived(self, unit: int) -> None:
        state = self._states[unit]
        if not state.waiting:
            state.waiting = True
            heappush(self._heap, state.place)

    def next(self, now: float) -> Grant | None:
        heap, order, rows = self._heap, self._order, self._rows
        while heap:
            state = order[heappop(heap)]
            component = state.component
            if component.busy:
                component.parked.append(state)
                continue
            state.waiting = False
            for e in state.entries:
                if rows[e] > 0:
                    component.busy = True
                    return state.grant
        return None

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        state = self._states[unit]
        component = state.component
        component.busy = False
        if component.parked:
            for other in component.parked:
                heappush(self._heap, other.place)
            component.parked.clear()
        if not state.waiting:
            self._wait(state)


class RankSelector(ReadyHeap):
    """Ranks that change only with the statistics; places are positions in the order of all ranks, highest first.

    Ties go to the unit further upstream (lower id), or, if `downstream`, to the one further downstream.
    """

    def __init__(
        self,
        view: View,
        units: Units,
        members: Sequence[int] | None,
        rank: Rank,
        rows: float = inf,
        seconds: float = inf,
        downstream: bool = False,
    ) -> None:
        super().__init__(view, units, rows, seconds)
        self._rank = rank
        self._downstream = downstream
        self._put_in_order(view)
        for unit in range(len(units)) if members is None else members:
            self._wait(self._states[unit])

    def _put_in_order(self, view: View) -> None:
        ranks = self._rank(view, self._units)
        states = reversed(self._states) if self._downstream else self._states
        self._order = sorted(states, key=lambda state: -ranks[state.unit])
        for place, state in enumerate(self._order):
            state.place = place

    def refresh(self, view: View, now: float) -> None:
        waiting = [self._order[place] for place in self._heap]
        self._put_in_order(view)
        self._heap = [state.place for state in waiting]
        heapify(self._heap)


class TurnSelector(ReadyHeap):
    """Units take turns in the order in which they became ready; no unit starves. `seconds`: the length of each turn."""

    def __init__(
        self,
        view: View,
        units: Units,
        members: Sequence[int] | None,
        rows: float = inf,
        seconds: Rank | None = None,
    ) -> None:
        super().__init__(view, units, rows, inf)
        self._limit = rows
        self._seconds = seconds
        self._order: dict[int, UnitState] = dict(enumerate(self._states))
        for place, state in self._order.items():
            state.place = place
        self._last = len(self._states)
        self.refresh(view, 0.0)
        for unit in range(len(units)) if members is None else members:
            self._wait(self._states[unit])

    def _wait(self, state: UnitState) -> None:
        """Puts the unit behind all others if it has rows."""
        rows = self._rows
        for e in state.entries:
            if rows[e] > 0:
                self.arrived(state.unit)
                return

    def arrived(self, unit: int) -> None:
        state = self._states[unit]
        if not state.waiting:
            state.waiting = True
            # The old place is removed: `_order` has one place per unit.
            del self._order[state.place]
            self._last = state.place = self._last + 1
            self._order[state.place] = state
            heappush(self._heap, state.place)

    def refresh(self, view: View, now: float) -> None:
        if self._seconds is not None:
            for state, seconds in zip(self._states, self._seconds(view, self._units), strict=True):
                state.grant = Grant(state.unit, self._limit, seconds)


LiveRank = Callable[[Queues, Unit], float]


class LiveSelector(Selector):
    """Ranks that follow the queues (length, age): a heap with lazy invalidation.

    Every change pushes a new entry; an entry that is not its unit's newest is dropped when it surfaces.
    `growth=False` if the rank does not depend on rows behind the oldest. Ties go to the unit further upstream
    (lower id), or, if `downstream`, to the one further downstream: rows in progress are finished first.
    """

    def __init__(
        self,
        view: View,
        units: Units,
        members: Sequence[int] | None,
        rank: LiveRank,
        rows: float = inf,
        seconds: float = inf,
        growth: bool = True,
        downstream: bool = False,
    ) -> None:
        self.watches_growth = growth
        self._downstream = downstream
        self._queues = view.queues
        self._units = units.units
        self._rank = rank
        self._states = unit_states(units, rows, seconds)
        self._heap: list[tuple[float, int, int, UnitState]] = []
        for unit in range(len(units)) if members is None else members:
            self.arrived(unit)

    def arrived(self, unit: int) -> None:
        key = -self._rank(self._queues, self._units[unit])
        state = self._states[unit]
        state.version += 1
        if key == inf:
            return
        heappush(self._heap, (key, -unit if self._downstream else unit, state.version, state))
        # Stale entries are at most a constant factor of the live ones, so a call stays O(log units).
        if len(self._heap) > 64 + 8 * len(self._states):
            self._heap = [entry for entry in self._heap if entry[2] == entry[3].version]
            heapify(self._heap)

    def changed(self, unit: int) -> None:
        if not self._states[unit].component.busy:
            self.arrived(unit)

    def next(self, now: float) -> Grant | None:
        heap = self._heap
        while heap:
            _, _, version, state = heappop(heap)
            if version != state.version:
                continue
            component = state.component
            if component.busy:
                component.parked.append(state)
                continue
            state.version += 1
            component.busy = True
            return state.grant
        return None

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        component = self._states[unit].component
        component.busy = False
        if component.parked:
            for waiting in {state.unit for state in component.parked} - {unit}:
                self.arrived(waiting)
            component.parked.clear()
        self.arrived(unit)

    def refresh(self, view: View, now: float) -> None:
        """Does nothing: the ranks are live."""


def oldest(queues: Queues, unit: Unit) -> float:
    """Minus the arrival time of the unit's oldest row (−inf when it has none)."""
    entries = unit.entries
    if len(entries) == 1:
        return -queues.oldest[entries[0]]
    return -min([queues.oldest[e] for e in entries])


def length(queues: Queues, unit: Unit) -> float:
    """The number of rows waiting for the unit (−inf when there are none)."""
    entries = unit.entries
    if len(entries) == 1:
        return queues.rows[entries[0]] or -inf
    return sum([queues.rows[e] for e in entries]) or -inf

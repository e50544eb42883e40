"""Selectors that grant the highest rank first: static ranks, ranks that follow the queues, and turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from headgate.scheduling.cut import Unit, Units
from headgate.scheduling.policy import Grant, Selector
from headgate.scheduling.view import Queues, View

Rank = Callable[[View, Units], Sequence[float]]


class Component:
    """Units that share an operator: one of them runs at a time. `parked` units became ready while another one ran."""

    __slots__ = ("busy", "parked")

    def __init__(self) -> None:
        self.busy = False
        self.parked: list[UnitState] = []


class UnitState:
    """Everything a decision about a unit reads, in one object: the operators evict the processor's cache in between.

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


class RankSelector(Selector):
    """Ranks that change only with the statistics: a heap of the ready units, highest rank first.

    Ties go to the unit further upstream (lower id), or, if `downstream`, to the one further downstream. The heap holds
    positions in the order of all ranks.
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
        self._units = units
        self._rank = rank
        self._downstream = downstream
        self._rows = view.queues.rows
        self._states = unit_states(units, rows, seconds)
        self._order: list[UnitState] = []
        self._heap: list[int] = []
        self._put_in_order(view)
        for unit in range(len(units)) if members is None else members:
            self._wait(self._states[unit])

    def _put_in_order(self, view: View) -> None:
        ranks = self._rank(view, self._units)
        states = reversed(self._states) if self._downstream else self._states
        self._order = sorted(states, key=lambda state: -ranks[state.unit])
        for place, state in enumerate(self._order):
            state.place = place

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

    def refresh(self, view: View, now: float) -> None:
        waiting = [self._order[place] for place in self._heap]
        self._put_in_order(view)
        self._heap = [state.place for state in waiting]
        heapify(self._heap)


LiveRank = Callable[[Queues, Unit], float]


class LiveSelector(Selector):
    """Ranks that follow the queues (length, age): a heap with lazy invalidation.

    Every change pushes a new entry; an entry that is not its unit's newest is dropped when it surfaces.
    `growth=False` if the rank does not depend on rows behind the oldest. Ties go to the unit further upstream
    (lower id), or, if `downstream`, to the one further downstream: a row that was begun is pushed through.
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


class TurnSelector(Selector):
    """Units take turns in the order in which they became ready; no unit starves."""

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
        self._states = unit_states(units, rows)
        self._turns: list[tuple[int, UnitState]] = []
        self._count = 0
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
            self._count += 1
            state.place = self._count
            heappush(self._turns, (self._count, state))

    def next(self, now: float) -> Grant | None:
        turns, rows = self._turns, self._rows
        while turns:
            state = heappop(turns)[1]
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
            # A unit that waited for its component keeps its place in the round.
            for other in component.parked:
                heappush(self._turns, (other.place, other))
            component.parked.clear()
        if not state.waiting:
            self._wait(state)

    def refresh(self, view: View, now: float) -> None:
        if self._seconds is not None:
            for state, seconds in zip(self._states, self._seconds(view, self._units), strict=True):
                state.grant = Grant(state.unit, self._limit, seconds)

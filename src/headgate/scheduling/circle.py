"""Units in a fixed circle: each gets its turn, also without rows, as long as a row waits anywhere (004 §3)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from headgate.scheduling.cut import Units
from headgate.scheduling.policy import Grant, Selector
from headgate.scheduling.ranked import Rank
from headgate.scheduling.view import View


class CircleSelector(Selector):
    """Grants the units in turn. A unit without rows gets a grant that takes none; a busy component is skipped."""

    def __init__(
        self,
        view: View,
        units: Units,
        members: Sequence[int] | None,
        rows: float = inf,
        seconds: Rank | None = None,
    ) -> None:
        self._units = units
        self._limit, self._seconds = rows, seconds
        self._circle = list(range(len(units)) if members is None else members)
        self._rows = view.queues.rows
        self._place = 0
        self._busy: set[int] = set()
        # Units with rows, maintained by `arrived` and `finished`; no turn is granted while there are none.
        self._ready = {unit for unit in self._circle if self._has_rows(unit)}
        self._grants: dict[int, Grant] = {}
        self.refresh(view, 0.0)

    def _has_rows(self, unit: int) -> bool:
        return any(self._rows[e] > 0 for e in self._units[unit].entries)

    def arrived(self, unit: int) -> None:
        self._ready.add(unit)

    def next(self, now: float) -> Grant | None:
        units, busy = self._units, self._busy
        if not self._ready or all(units[unit].component in busy for unit in self._ready):
            return None
        for _ in self._circle:
            unit = self._circle[self._place]
            self._place = (self._place + 1) % len(self._circle)
            if units[unit].component not in busy:
                busy.add(units[unit].component)
                return self._grants[unit]
        return None

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        self._busy.discard(self._units[unit].component)
        if self._has_rows(unit):
            self._ready.add(unit)
        else:
            self._ready.discard(unit)

    def refresh(self, view: View, now: float) -> None:
        turns = [inf] * len(self._units) if self._seconds is None else self._seconds(view, self._units)
        self._grants = {unit: Grant(unit, self._limit, turns[unit]) for unit in self._circle}

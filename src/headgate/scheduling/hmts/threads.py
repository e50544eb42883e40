"""The third level of HMTS: which thread runs next, by priority and age; none starves (000 §4.2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from headgate.scheduling.cut import Units
from headgate.scheduling.policy import Grant, Policy, Selector
from headgate.scheduling.topology import Topology
from headgate.scheduling.view import View

URGENT = 0.999
"""The most that a spec adds to a priority: the priorities of classes are whole numbers, so a class stays ahead."""

LOOK = 0.05
"""Seconds between two checks of the rows that wait for queries with a spec."""


def latencies(topology: Topology, units: Units) -> dict[int, float]:
    """The shortest latency (s) that the queries served by a unit ask for, by unit."""
    found: dict[int, float] = {}
    for unit in units.units:
        served = {q for o in unit.operators for q in topology.serves[o]}
        asked = [latency for q in served if (latency := topology.queries[q].latency) is not None]
        if asked:
            found[unit.id] = min(asked)
    return found


class ThreadSelector(Selector):
    """A partition is a thread: it runs one unit at a time, chosen by its own policy.

    Its priority is that of its highest class. Rows that wait for a query with a latency spec raise it, by the part of
    that latency which they have waited, up to URGENT (`prioritize`, 000 §4.2.2: "priorities that can be adapted during
    runtime").

    A waiting thread's priority rises by `aging` a second, so it is p + a·(now − since): the order of two
    waiting threads never changes, and a heap by p − a·since suffices. After a `slice` of time a thread yields to
    one that is ahead of it by then (between rows): so a long train does not delay a higher thread.
    """

    def __init__(
        self,
        view: View,
        units: Units,
        partitions: Sequence[tuple[Sequence[int], Policy, float]],
        aging: float,
        slice: float = inf,
        latencies: Mapping[int, float] | None = None,
    ) -> None:
        self._rows = view.queues.rows
        self._oldest = view.queues.oldest
        self._entries = [unit.entries for unit in units.units]
        self._thread_of: dict[int, int] = {}
        self._inner: list[Selector] = []
        self.priorities: list[float] = []
        for number, (members, policy, priority) in enumerate(partitions):
            self._inner.append(policy.selector(view, units, members))
            self.priorities.append(priority)
            for unit in members:
                self._thread_of[unit] = number
        self._given = list(self.priorities)
        self._specs: dict[int, list[tuple[tuple[int, ...], float]]] = {}
        for unit, latency in (latencies or {}).items():
            if unit in self._thread_of:
                self._specs.setdefault(self._thread_of[unit], []).append((units[unit].entries, latency))
        self._look_at = -inf
        self.watches_growth = any(inner.watches_growth for inner in self._inner)
        self._aging = aging
        self._slice = slice
        self._ready: list[set[int]] = [set() for _ in partitions]
        self._running = [False] * len(partitions)
        self._waiting = [False] * len(partitions)
        self._heap: list[tuple[float, int]] = []
        self._now = 0.0
        for unit in self._thread_of:
            self._check_ready(unit)

    def prioritize(self, thread: int, priority: float) -> None:
        """Change a thread's priority while it runs; the specs of its queries add to it."""
        self._given[thread] = priority
        self._prioritize({thread: priority})

    def _prioritize(self, changed: Mapping[int, float]) -> None:
        change = {thread: priority - self.priorities[thread] for thread, priority in changed.items()}
        for thread, priority in changed.items():
            self.priorities[thread] = priority
        self._heap = [(key - change.get(thread, 0.0), thread) for key, thread in self._heap]
        heapify(self._heap)

    def _apply_specs(self, now: float) -> None:
        """Sets the priorities of threads by how long rows have waited for queries with a latency spec."""
        self._look_at = now + LOOK
        changed: dict[int, float] = {}
        for thread, specs in self._specs.items():
            waited = max((now - self._oldest[e]) / latency for entries, latency in specs for e in entries)
            priority = self._given[thread] + min(max(waited, 0.0), URGENT)
            if priority != self.priorities[thread]:
                changed[thread] = priority
        if changed:
            self._prioritize(changed)

    def arrived(self, unit: int) -> None:
        self._check_ready(unit)
        self._inner[self._thread_of[unit]].arrived(unit)

    def changed(self, unit: int) -> None:
        self._inner[self._thread_of[unit]].changed(unit)

    def next(self, now: float) -> Grant | None:
        self._now = now
        if self._specs and now >= self._look_at:
            self._apply_specs(now)
        while self._heap:
            thread = heappop(self._heap)[1]
            self._waiting[thread] = False
            if self._running[thread] or not self._ready[thread]:
                continue
            grant = self._inner[thread].next(now)
            if grant is not None:
                self._ready[thread].discard(grant.unit)
                self._running[thread] = True
                return grant if grant.seconds <= self._slice else Grant(grant.unit, grant.rows, self._slice)
        return None

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        self._now = now
        thread = self._thread_of[unit]
        self._running[thread] = False
        self._inner[thread].finished(unit, now, elapsed, rows_in, rows_out)
        self._check_ready(unit)
        self._wait(thread)

    def refresh(self, view: View, now: float) -> None:
        for inner in self._inner:
            inner.refresh(view, now)

    def _check_ready(self, unit: int) -> None:
        rows = self._rows
        for e in self._entries[unit]:
            if rows[e] > 0:
                thread = self._thread_of[unit]
                self._ready[thread].add(unit)
                self._wait(thread)
                return

    def _wait(self, thread: int) -> None:
        if not self._waiting[thread] and not self._running[thread] and self._ready[thread]:
            self._waiting[thread] = True
            heappush(self._heap, (self._aging * self._now - self.priorities[thread], thread))

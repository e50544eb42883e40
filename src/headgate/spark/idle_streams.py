"""Watermarks of idle streams: after a timeout that the user sets, a silent stream no longer delays joins and unions.

Without a timeout the watermark of a stream without new rows does not advance, as in Spark, and everything that needs it
waits. A stream declared WITH (idle = …) that has had no rows for that time is idle:

- if streams that are read together with it are not idle, its watermark follows the lowest of theirs
- otherwise it is estimated: the newest event time, less the delay, plus the time since its last rows
  (on-demand timestamps, 001 §4.1 and its ref. 4)

A row that comes later with an earlier event time is late, as behind any watermark. The driver alone decides, from the
commits and its clock, so that all replicas have the same watermarks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headgate.graph.operators import Source
from headgate.graph.queries import Query


@dataclass(frozen=True)
class _Timed:
    """A stream with an event time: its delay, and the other streams that some query reads together with it."""

    delay: int
    beside: frozenset[str]


class IdleStreams:
    """The idle streams of a run. Used by one thread; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._after: dict[str, float] = {}
        self._timed: dict[str, _Timed] = {}
        # By stream: when its last rows arrived, when its watermark was last reported to the replicas, and its value.
        self._last: dict[str, float] = {}
        self._told: dict[str, float] = {}
        self._given: dict[str, int] = {}

    def plan(self, idle: Mapping[str, int], queries: Iterable[Query]) -> None:
        """Sets after how many microseconds of silence each stream is idle, and which queries read the streams."""
        delays: dict[str, int] = {}
        beside: dict[str, set[str]] = {}
        for query in queries if idle else ():
            sources = [node for node in query.plan.walk() if isinstance(node, Source) and node.time is not None]
            names = {source.stream for source in sources}
            delays |= {source.stream: source.delay for source in sources}
            for name in names:
                beside.setdefault(name, set()).update(names - {name})
        self._timed = {name: _Timed(delay, frozenset(beside[name])) for name, delay in delays.items()}
        self._after = {name: after / 1e6 for name, after in idle.items() if name in self._timed}

    def arrived(self, streams: Iterable[str]) -> None:
        """Records that rows of these streams have arrived."""
        now = self._clock()
        for name in streams:
            self._last[name] = now

    def watermarks(self, event_times: Mapping[str, int]) -> dict[str, int]:
        """For the next request: the watermark (microseconds) that each idle stream has reached; it never falls.

        `event_times` are the newest event times of all streams.
        """
        now = self._clock()
        idle = self._idle(now)
        self._told.update(dict.fromkeys(idle, now))
        found = self._reached(event_times, idle, now)
        self._given.update(found)
        return found

    def behind(self, event_times: Mapping[str, int]) -> bool:
        """Whether idle streams follow others that have advanced: an epoch without rows should report it."""
        now = self._clock()
        idle = self._idle(now)
        return any(
            watermark > self._given.get(name, watermark - 1)
            for name, watermark in self._reached(event_times, idle, now).items()
            if self._timed[name].beside - idle
        )

    @property
    def wait(self) -> float | None:
        """Seconds until an epoch without rows should report the watermark of an idle stream; None: never.

        It is due when a stream becomes idle, and again each time its silence has doubled, so that all its windows end.
        """
        dues = [self._due(name) for name in self._after]
        return max(0.0, min(dues) - self._clock()) if dues else None

    def _due(self, name: str) -> float:
        since, step = self._since(name), self._after[name]
        told = self._told.get(name, since)
        while since + step <= told:
            step *= 2
        return since + step

    def _since(self, name: str) -> float:
        return self._last.get(name, self._began)

    def _idle(self, now: float) -> frozenset[str]:
        return frozenset(name for name, after in self._after.items() if now - self._since(name) >= after)

    def _reached(self, event_times: Mapping[str, int], idle: frozenset[str], now: float) -> dict[str, int]:
        own = {name: event_times[name] - timed.delay for name, timed in self._timed.items() if name in event_times}
        found: dict[str, int] = {}
        for name in idle:
            others = self._timed[name].beside - idle
            if others and all(other in own for other in others):
                found[name] = min(own[other] for other in others)
            elif not others and name in own:
                found[name] = own[name] + int((now - self._since(name)) * 1e6)
        # Streams that have never had rows, read together with idle ones.
        for name in idle - found.keys():
            known = [found[other] for other in self._timed[name].beside if other in found]
            if known and self._timed[name].beside <= idle:
                found[name] = min(known)
        return {name: max(time, own.get(name, time), self._given.get(name, time)) for name, time in found.items()}

"""Watches how busy the replicas are, and decides when another placement pays."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import lt
from typing import Any

from headgate.graph.queries import Query
from headgate.spark.levelling import KeyRows, MeasuredLoad
from headgate.spark.placement import Placement
from headgate.spark.placing import place

WINDOW = 20.0
"""Seconds over which the load of the replicas is measured."""
BUSY = 0.5
"""Utilization (busy share of its time) below which no replica needs relief."""
UNEVEN = 1.4
"""Queries are moved only if the busiest replica has at least this multiple of the mean load."""
GAIN = 0.8
"""Moving queries pays if the busiest replica is expected to have at most this share of its present load."""
KEY_GAIN = 0.95
"""The same for keys alone: their rows are counted, which is more certain than what queries will cost elsewhere."""
PAYS = 2.0
"""Keys are moved once the busiest replica has lost as many seconds by its excess as so many moves take."""
MOVE = 0.5
"""Seconds that a move takes, until one that took longer has been measured."""
PAUSE = 60.0
"""Seconds after a change before the next; twice as long after each change that did not help."""


@dataclass(frozen=True)
class _Sample:
    at: float
    replicas: tuple[float, ...]
    queries: Mapping[str, float]
    key_rows: KeyRows


@dataclass(frozen=True)
class BetterPlacement:
    """A better placement, and why: the load of the busiest replica as a multiple of the mean, now and then."""

    placement: Placement
    now: float
    then: float


class Balance:
    """Measures load from the metrics of epochs. Used by one thread.

    A change moves state and interrupts all queries for a moment, so it is made only if it is expected to relieve the
    busiest replica clearly. Queries move if the load has been uneven for a whole window. Keys move as soon as that has
    cost more time than a move does: early if state is small, and never more often than pays. A load that cannot be
    divided, such as that of one hot key, is not expected to get better and stays where it is.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[_Sample] = deque()
        # Since when the counters may count from zero; None once there was a sample.
        self._began: float | None = self._clock()
        self._asked = self._clock()
        self._lost = 0.0
        self._next = 0.0
        self._pause = PAUSE
        self._move = MOVE

    def report(self, metrics: Mapping[str, Any], key_rows: KeyRows | None = None) -> None:
        """Records the metrics of all replicas (`combined_metrics.py`), and the `key_rows` of their answers."""
        now = self._clock()
        busy = tuple(replica["seconds"] for replica in metrics.get("replicas", ()))
        spent: dict[str, float] = {}
        for operator in metrics["operators"]:
            for query in operator["queries"]:
                spent[query] = spent.get(query, 0.0) + operator["seconds"] / len(operator["queries"])
        newest = self._samples[-1] if self._samples else None
        if newest is not None and (len(newest.replicas) != len(busy) or any(map(lt, busy, newest.replicas))):
            # The number of replicas has changed, or a host has restarted: its counters began again at zero.
            self._samples.clear()
        began, self._began = self._began, None
        if began is not None and busy and max(busy) <= now - began:
            self._samples.append(_Sample(began, (0.0,) * len(busy), {}, {}))
        self._samples.append(_Sample(now, busy, spent, key_rows or {}))
        while len(self._samples) > 2 and now - self._samples[1].at >= WINDOW:
            self._samples.popleft()

    def moved(self, seconds: float) -> None:
        """The placement was changed, which took so long."""
        self._move = max(MOVE, seconds)
        self._samples.clear()
        self._began = self._clock()

    @property
    def costs(self) -> dict[str, float]:
        """Busy seconds of each query per second, over the window; empty until a window is complete."""
        return self._costs if self._passed >= WINDOW else {}

    def better(self, queries: Sequence[Query], present: Placement) -> BetterPlacement | None:
        """Another placement of these queries, or of their keys, if it pays now."""
        loads, asked, self._asked = self._loads, self._asked, self._clock()
        if not loads or self._asked < self._next:
            return None
        busiest, mean = max(loads), sum(loads) / len(loads)
        if busiest < BUSY or KEY_GAIN * busiest < mean:
            self._lost, self._pause = 0.0, PAUSE
            return None
        # Without figures so far a query is taken to be idle.
        costs = dict.fromkeys((query.name for query in queries), 0.0) | self._costs
        key_rows = self._key_rows
        now = MeasuredLoad(present, costs, key_rows)
        if now.busiest <= 0.0:
            # The load was that of queries that have ended.
            return None
        keys = now.with_owners(now.levelled())
        pays = keys.busiest <= KEY_GAIN * now.busiest
        self._lost = self._lost + (1 - keys.busiest / now.busiest) * busiest * (self._asked - asked) if pays else 0.0
        best = keys if pays and self._lost >= PAYS * self._move else now
        if self._passed >= WINDOW and busiest >= UNEVEN * mean:
            routes = place(queries, present.replicas, costs).routes
            other = MeasuredLoad(replace(present, routes=routes), costs, key_rows)
            other = other.with_owners(other.levelled())
            if other.busiest <= GAIN * best.busiest:
                best = other
        if best is now or best.placement == present:
            return None
        self._samples.clear()
        self._lost = 0.0
        self._next = self._clock() + self._pause
        self._pause *= 2
        return BetterPlacement(best.placement, busiest / mean, best.busiest / best.mean)

    @property
    def _passed(self) -> float:
        """Seconds from the first sample to the last."""
        return self._samples[-1].at - self._samples[0].at if self._samples else 0.0

    @property
    def _loads(self) -> list[float]:
        """Busy seconds of each replica per second."""
        if not self._passed:
            return []
        first, last = self._samples[0], self._samples[-1]
        return [(after - before) / self._passed for before, after in zip(first.replicas, last.replicas, strict=True)]

    @property
    def _costs(self) -> dict[str, float]:
        """Busy seconds of each query per second."""
        if not self._passed:
            return {}
        first, last = self._samples[0].queries, self._samples[-1].queries
        return {name: (after - first.get(name, 0.0)) / self._passed for name, after in last.items()}

    @property
    def _key_rows(self) -> KeyRows:
        """The rows of each key slot between the first sample and the last."""
        first, last = self._samples[0].key_rows, self._samples[-1].key_rows
        return {
            name: [max(0.0, after - before) for after, before in zip(rows, first[name], strict=True)]
            if name in first and len(first[name]) == len(rows)
            else rows
            for name, rows in last.items()
        }

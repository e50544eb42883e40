"""Watches how busy the replicas are, and decides when another placement pays."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.graph.queries import Query
from headgate.spark.placement import Placement
from headgate.spark.placing import place

WINDOW = 20.0
"""Seconds over which the load of the replicas is measured."""
BUSY = 0.5
"""Utilization (busy share of its time) below which no replica needs relief."""
UNEVEN = 1.4
"""A change is considered when the busiest replica has at least this multiple of the mean load."""
GAIN = 0.8
"""A change pays if the busiest replica is expected to have at most this share of its present load."""
PAUSE = 60.0
"""Seconds after a change before the next; twice as long after each change that did not help."""


@dataclass(frozen=True)
class _Sample:
    at: float
    replicas: tuple[float, ...]
    queries: Mapping[str, float]


class Balance:
    """Measures load from the metrics of epochs. Used by one thread.

    A change moves state and interrupts all queries for a moment, so it is made only if the load has been uneven for a
    whole window and the change is expected to relieve the busiest replica clearly.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[_Sample] = deque()
        self._next = 0.0
        self._pause = PAUSE

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Records the metrics of all replicas (`combined_metrics.py`)."""
        now = self._clock()
        busy = tuple(replica["seconds"] for replica in metrics.get("replicas", ()))
        spent: dict[str, float] = {}
        for operator in metrics["operators"]:
            for query in operator["queries"]:
                spent[query] = spent.get(query, 0.0) + operator["seconds"] / len(operator["queries"])
        newest = self._samples[-1] if self._samples else None
        if newest is not None and (len(newest.replicas) != len(busy) or sum(busy) < sum(newest.replicas)):
            # The number of replicas has changed, or a host has restarted and its counters began again at zero.
            self._samples.clear()
        self._samples.append(_Sample(now, busy, spent))
        while len(self._samples) > 2 and now - self._samples[1].at >= WINDOW:
            self._samples.popleft()

    @property
    def loads(self) -> list[float]:
        """Busy seconds of each replica per second, over the window; empty until a window is complete."""
        first, last = self._ends()
        if first is None or last is None:
            return []
        passed = last.at - first.at
        return [(after - before) / passed for before, after in zip(first.replicas, last.replicas, strict=True)]

    @property
    def costs(self) -> dict[str, float]:
        """Busy seconds of each query per second, over the window."""
        first, last = self._ends()
        if first is None or last is None:
            return {}
        passed = last.at - first.at
        return {name: (after - first.queries.get(name, 0.0)) / passed for name, after in last.queries.items()}

    def better(self, queries: Sequence[Query], present: Placement) -> Placement | None:
        """Another placement of these queries, if it pays now."""
        loads = self.loads
        if not loads or self._clock() < self._next:
            return None
        busiest, mean = max(loads), sum(loads) / len(loads)
        if busiest < BUSY or busiest < UNEVEN * mean:
            self._pause = PAUSE
            return None
        # Without figures so far a query is taken to be idle.
        costs = dict.fromkeys((query.name for query in queries), 0.0) | self.costs
        found = place(queries, present.replicas, costs)
        now, then = _busiest(present, costs), _busiest(found, costs)
        if found.routes == present.routes or then > GAIN * now:
            return None
        self._samples.clear()
        self._next = self._clock() + self._pause
        self._pause *= 2
        return found

    def _ends(self) -> tuple[_Sample | None, _Sample | None]:
        if len(self._samples) < 2 or self._samples[-1].at - self._samples[0].at < WINDOW:
            return None, None
        return self._samples[0], self._samples[-1]


def _busiest(placement: Placement, costs: Mapping[str, float]) -> float:
    """The load that the busiest replica is expected to have: queries that are split are split evenly."""
    loads = [0.0] * placement.replicas
    for query in placement.routes:
        home = placement.replica_of(query)
        for replica in range(placement.replicas) if home is None else (home,):
            loads[replica] += costs.get(query, 0.0) / (placement.replicas if home is None else 1)
    return max(loads)

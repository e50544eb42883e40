"""Measurements during a simulation: results with their latencies, and queue sizes over time."""

from __future__ import annotations

from array import array
from operator import mul

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FOLD = 400_000


class Levels:
    """Rows and bytes in the queues over time, exact, from changes reported in any order.

    Changes are sorted and folded into running totals once no earlier change can follow, so a long simulation
    needs little memory.
    """

    def __init__(self, resolution: float) -> None:
        self.resolution = resolution
        self.times = array("d")
        self.rows = array("d")
        self.bytes = array("d")
        self._level = np.zeros(2)
        self._area = np.zeros(2)
        self._peak = np.zeros(2)
        self._at = 0.0
        self._samples: list[Floats] = []
        self._next = 0

    def fold(self, until: float) -> None:
        """Folds in the changes before `until`; all of them must have been reported."""
        times = np.frombuffer(self.times, dtype=np.float64).copy()
        deltas = np.stack([np.frombuffer(self.rows), np.frombuffer(self.bytes)], axis=1).copy()
        now = times < until
        late = ~now
        # In place: the executor keeps references to the arrays.
        self.times[:] = array("d", times[late])
        self.rows[:] = array("d", deltas[late, 0])
        self.bytes[:] = array("d", deltas[late, 1])
        times, deltas = times[now], deltas[now]
        order = np.argsort(times, kind="stable")
        times, deltas = times[order], deltas[order]
        levels = np.concatenate([self._level[None, :], self._level + np.cumsum(deltas, axis=0)])
        edges = np.concatenate([[self._at], times, [max(until, self._at)]])
        self._area += (levels * np.diff(edges)[:, None]).sum(axis=0)
        # A level of zero duration (one row leaves at the moment another arrives) is not a peak.
        lasting = np.diff(edges) > 0
        if lasting.any():
            self._peak = np.maximum(self._peak, levels[lasting].max(axis=0))
        last = int(np.floor(edges[-1] / self.resolution))
        if last >= self._next:
            moments = np.arange(self._next, last + 1) * self.resolution
            self._samples.append(levels[np.searchsorted(times, moments, side="right")])
            self._next = last + 1
        self._level = levels[-1]
        self._at = float(edges[-1])

    def area(self) -> tuple[float, float]:
        """Row-seconds and byte-seconds until the last fold."""
        return float(self._area[0]), float(self._area[1])

    def peak(self) -> tuple[float, float]:
        return float(self._peak[0]), float(self._peak[1])

    def samples(self) -> Floats:
        """Rows and bytes at multiples of the resolution."""
        return np.concatenate(self._samples) if self._samples else np.zeros((0, 2))


class QueryOutput:
    """The results of one query: time, latency and number of rows of each."""

    __slots__ = ("_delay", "_results", "_seen", "latency", "rows", "time")

    def __init__(self) -> None:
        self._seen, self._results, self._delay = 0, 0.0, 0.0
        self.time = array("d")
        self.latency = array("d")
        self.rows = array("d")

    def totals(self) -> tuple[float, float]:
        """The results so far, and their total delay."""
        rows, latency = self.rows[self._seen :], self.latency[self._seen :]
        self._seen += len(rows)
        self._results += sum(rows)
        self._delay += sum(map(mul, rows, latency))
        return self._results, self._delay

"""Latencies of results: a histogram with buckets of equal ratio, for mean, percentiles and maximum."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import floor, log
from typing import Any

from headgate.operators.batch import Arrival

_RATIO = 1.05
_STEP = log(_RATIO)
_SMALLEST = 1e-6
_PARTS = 16
"""Most buckets over which the rows of a batch are spread if they waited before their arrival."""


class Latency:
    """Latencies of rows, in seconds. The mean is exact; a percentile is within 5%, as buckets grow by that ratio.

    The rows of one batch count with their mean, since they arrived together; rows that waited before their arrival are
    spread evenly over the time that they may have waited.
    """

    __slots__ = ("_buckets", "rows", "total", "worst")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.rows = 0
        self.total = 0.0
        self.worst = 0.0

    def add(self, now: float, arrival: Arrival, waited: float = 0.0) -> None:
        """Adds the rows of a batch of results; each may have waited up to `waited` seconds before its arrival."""
        count = arrival.count
        if not count:
            return
        total = now * count - arrival.total
        self.rows += count
        self.total += total + count * waited / 2
        self.worst = max(self.worst, now - arrival.first + waited)
        parts = min(count, _PARTS) if waited > 0 else 1
        for part in range(parts):
            seconds = total / count + waited * (part + 0.5) / parts if waited > 0 else total / count
            bucket = floor(log(max(seconds, _SMALLEST)) / _STEP)
            share = count * (part + 1) // parts - count * part // parts
            self._buckets[bucket] = self._buckets.get(bucket, 0) + share

    def merge(self, other: Latency) -> None:
        """Adds another histogram."""
        self.rows += other.rows
        self.total += other.total
        self.worst = max(self.worst, other.worst)
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count

    def since(self, earlier: Latency) -> Latency:
        """The latencies added since `earlier`, an older copy; all of them if the histogram was reset in between."""
        found = Latency()
        if earlier.rows > self.rows:
            found.merge(self)
            return found
        found.rows, found.total = self.rows - earlier.rows, self.total - earlier.total
        counts = ((bucket, count - earlier._buckets.get(bucket, 0)) for bucket, count in self._buckets.items())
        found._buckets = {bucket: count for bucket, count in counts if count}
        found.worst = min(self.worst, float(_RATIO ** (max(found._buckets) + 1))) if found._buckets else 0.0
        return found

    @property
    def mean(self) -> float:
        return self.total / self.rows if self.rows else 0.0

    def percentile(self, share: float) -> float:
        """The latency that this share of the rows does not exceed.

        >>> latency = Latency()
        >>> for late in (1.0, 2.0, 3.0): latency.add(late, Arrival.at(0.0, 1))
        >>> round(latency.percentile(0.5), 1)
        2.0
        """
        wanted = share * self.rows
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(float(_RATIO ** (bucket + 0.5)), self.worst)
        return 0.0

    def figures(self) -> dict[str, float]:
        """Mean, median, 99th percentile and worst."""
        return {
            "mean": self.mean,
            "p50": self.percentile(0.5),
            "p99": self.percentile(0.99),
            "worst": self.worst,
        }

    def state(self) -> dict[str, Any]:
        """All fields, as plain values for JSON."""
        return {
            "rows": self.rows,
            "total": self.total,
            "worst": self.worst,
            "buckets": [[bucket, count] for bucket, count in self._buckets.items()],
        }

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Latency:
        """Restores the result of `state`."""
        latency = cls()
        latency.rows, latency.total, latency.worst = state["rows"], state["total"], state["worst"]
        latency._buckets = dict(state["buckets"])
        return latency


class RecentLatency:
    """Latencies of the last `window` seconds (up to a tenth less: they are dropped in slices). Not thread-safe."""

    __slots__ = ("_slice", "_slices", "_window")

    def __init__(self, window: float) -> None:
        self._window = window
        self._slice = window / 10
        self._slices: deque[tuple[int, Latency]] = deque()

    def add(self, now: float, arrival: Arrival, waited: float = 0.0) -> None:
        """Adds the rows of a batch of results that are published now (see `Latency.add`)."""
        number = floor(now / self._slice)
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append((number, Latency()))
            self._drop(now)
        self._slices[-1][1].add(now, arrival, waited)

    def whole(self, now: float) -> Latency:
        """The latencies of the window that ends now."""
        self._drop(now)
        found = Latency()
        for _, latency in self._slices:
            found.merge(latency)
        return found

    def _drop(self, now: float) -> None:
        first = floor((now - self._window) / self._slice)
        while self._slices and self._slices[0][0] <= first:
            self._slices.popleft()

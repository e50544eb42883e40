"""Answers of one side, with the age of the rows behind them when they can be read: the same for both sides."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Age:
    """The ages (s) of some answers: how many, their mean and their 99th percentile; None without answers."""

    count: int
    mean: float | None
    p99: float | None


class Answers:
    """Collects answers: when they could be read, and when the newest row behind each was created. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[str, list[tuple[float, Numbers]]] = {}
        self.began = float("inf")
        """Answers to rows that were created before this time (seconds since 1970) are not counted."""
        self.ends = float("inf")
        """Answers after this time are not counted."""
        self.seen: set[str] = set()
        """Queries that have answered, also before `began`."""

    def add(self, query: str, rows: pa.Table) -> None:
        """Takes the answers that a query has just delivered."""
        now = time.time()
        if not rows.num_rows:
            return
        created = rows.column("ts").cast(pa.int64()).to_numpy() / 1e6
        with self._lock:
            self.seen.add(query)
            created = created[created >= self.began]
            if len(created) and now <= self.ends:
                self._batches.setdefault(query, []).append((now, created))

    def ages(self, queries: Collection[str], after: float = 0.0) -> Age:
        """The ages of the answers of these queries that were delivered after a time."""
        parts = [now - created for now, created in self._of(queries) if now >= after]
        if not parts:
            return Age(0, None, None)
        ages = np.concatenate(parts)
        return Age(len(ages), float(ages.mean()), float(np.quantile(ages, 0.99)))

    def during(self, queries: Collection[str], start: float, end: float) -> Age:
        """The ages of the answers to rows that were created from `start` to `end` seconds after the beginning."""
        low, high = self.began + start, self.began + end
        parts = [now - created[(created >= low) & (created < high)] for now, created in self._of(queries)]
        ages = np.concatenate(parts) if parts else np.empty(0)
        return Age(len(ages), float(ages.mean()), float(np.quantile(ages, 0.99))) if len(ages) else Age(0, None, None)

    def curve(self, queries: Collection[str], seconds: float, width: float = 0.5) -> tuple[list[float], list[float]]:
        """The mean age by the time at which rows were created, in steps of `width`; only steps that have answers."""
        batches = self._of(queries)
        steps = int(np.ceil(seconds / width))
        counts, sums = np.zeros(steps), np.zeros(steps)
        for now, created in batches:
            place = np.floor((created - self.began) / width).astype(np.int64)
            inside = place < steps
            counts += np.bincount(place[inside], minlength=steps)
            sums += np.bincount(place[inside], weights=(now - created)[inside], minlength=steps)
        there = counts > 0
        return (((np.arange(steps) + 0.5) * width)[there].tolist(), (sums[there] / counts[there]).tolist())

    def _of(self, queries: Collection[str]) -> list[tuple[float, Numbers]]:
        with self._lock:
            return [batch for query in queries for batch in self._batches.get(query, [])]

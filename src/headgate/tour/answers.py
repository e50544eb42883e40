"""Collects the answers of one side and measures their ages, in the same way for both sides."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Age:
    """The ages (s) of some answers: how many, their mean and their 99th percentile; None without answers.

    `overdue`: number of answers that were missing when the side was stopped. They count in the mean and the percentile
    with the age that they had reached, so both are lower bounds.
    """

    count: int
    mean: float | None
    p99: float | None
    overdue: int = 0

    @classmethod
    def of(cls, ages: Numbers, overdue: Numbers | None = None) -> Age:
        """The ages of answers, and those of answers that are overdue."""
        late = np.empty(0) if overdue is None else overdue
        every = np.concatenate([ages, late])
        if not len(every):
            return cls(0, None, None)
        return cls(len(ages), float(every.mean()), float(np.quantile(every, 0.99)), len(late))


class Answers:
    """Collects answers: when they could be read, and when the newest row behind each was sent. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[str, list[tuple[float, Numbers]]] = {}
        self.began = float("inf")
        """Answers to rows that were sent before this time (seconds since 1970) are not counted."""
        self.ends = float("inf")
        """Answers after this time are not counted."""
        self.seen: set[str] = set()
        """Queries that have answered, also before `began`."""

    def add(self, query: str, rows: pa.Table) -> None:
        """Takes the answers that a query has just delivered."""
        now = time.time()
        if not rows.num_rows:
            return
        sent = rows.column("sent").to_numpy()
        with self._lock:
            self.seen.add(query)
            sent = sent[sent >= self.began]
            if len(sent) and now <= self.ends:
                self._batches.setdefault(query, []).append((now, sent))

    def ages(self, queries: Collection[str], after: float = 0.0) -> Age:
        """The ages of the answers of these queries that were delivered after a time."""
        return Age.of(_joined([now - sent for now, sent in self._of(queries) if now >= after]))

    def during(self, queries: Collection[str], start: float, end: float) -> Age:
        """The ages of the answers to rows that were sent from `start` to `end` seconds after the beginning."""
        low, high = self.began + start, self.began + end
        return Age.of(_joined([now - sent[(sent >= low) & (sent < high)] for now, sent in self._of(queries)]))

    def answer_counts(self, query: str, seconds: float, width: float = 0.5) -> Counts:
        """The number of answers of a query, by the time at which rows were sent, in steps of `width` seconds."""
        steps = int(np.ceil(seconds / width))
        times = _joined([sent for _, sent in self._of([query])]) - self.began
        return np.histogram(times, np.arange(steps + 1) * width)[0].astype(np.int64)

    def with_overdue(
        self, queries: Collection[str], due: Mapping[str, Counts], seconds: float, width: float = 0.5
    ) -> Age:
        """The ages of all answers of these queries. Answers that are `due` but missing are overdue."""
        overdue: list[Numbers] = []
        for query in queries:
            if query in due:
                missing = missing_answers(due[query], self.answer_counts(query, seconds, width))
                reached = self.ends - self.began - (np.arange(len(missing)) + 0.5) * width
                overdue.append(np.repeat(reached, missing))
        return Age.of(_joined([now - sent for now, sent in self._of(queries)]), _joined(overdue))

    def curve(self, queries: Collection[str], seconds: float, width: float = 0.5) -> tuple[list[float], list[float]]:
        """The mean age by the time at which rows were sent, in steps of `width`; only steps that have answers."""
        batches = self._of(queries)
        steps = int(np.ceil(seconds / width))
        counts, sums = np.zeros(steps), np.zeros(steps)
        for now, sent in batches:
            place = np.floor((sent - self.began) / width).astype(np.int64)
            inside = place < steps
            counts += np.bincount(place[inside], minlength=steps)
            sums += np.bincount(place[inside], weights=(now - sent)[inside], minlength=steps)
        there = counts > 0
        return (((np.arange(steps) + 0.5) * width)[there].tolist(), (sums[there] / counts[there]).tolist())

    def _of(self, queries: Collection[str]) -> list[tuple[float, Numbers]]:
        with self._lock:
            return [batch for query in queries for batch in self._batches.get(query, [])]


def due(sides: Sequence[Answers], queries: Collection[str], seconds: float) -> dict[str, Counts]:
    """The number of answers that are due for each query, by step: that of the side with more answers.

    Both sides get the same rows and run the same SELECTs, so a row has the same answers on both.
    """
    return {query: max((side.answer_counts(query, seconds) for side in sides), key=np.sum) for query in queries}


def missing_answers(due: Counts, answer_counts: Counts) -> Counts:
    """The number of due answers that are missing, by step. An answer may fall into a neighbouring step: the windows of
    two runs begin at different times after their starts.

    >>> missing_answers(np.array([1, 1, 2, 0]), np.array([0, 2, 1, 0])).tolist()
    [0, 0, 1, 0]
    """
    behind = np.maximum(np.cumsum(due) - np.cumsum(answer_counts), 0)
    # Answers that a later step makes up for are not missing.
    for_good = np.minimum.accumulate(behind[::-1])[::-1]
    missing: Counts = np.diff(for_good, prepend=0)
    return missing


def _joined(parts: Sequence[Numbers]) -> Numbers:
    return np.concatenate(parts) if parts else np.empty(0)

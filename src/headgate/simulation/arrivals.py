"""Arrival processes: Poisson, Poisson with a changing mean, bursts, constant rate, recorded.

Each can be drawn in two ways: row by row for the simulator (`times`), and in arrays for the feeder (`blocks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import inf
from random import Random
from typing import Protocol

import numpy as np
import numpy.typing as npt

from headgate.scheduling.errors import ModelError

Moments = npt.NDArray[np.float64]
"""Arrival times in seconds, in non-decreasing order."""

BLOCK = 8192
"""Most rows of an array that `blocks` yields."""


class Arrivals(Protocol):
    """An arrival process, drawn row by row in non-decreasing order."""

    @property
    def rate(self) -> float:
        """Mean rate (rows/s), used where statistics are known in advance."""
        ...

    def times(self, random: Random) -> Iterator[float]:
        """The arrival time of each row."""
        ...


class ArrivalBlocks(Arrivals, Protocol):
    """An arrival process that can also be drawn in arrays."""

    def blocks(self, random: np.random.Generator) -> Iterator[Moments]:
        """The arrival times in arrays of at most BLOCK rows, generated without a loop over rows."""
        ...


def _check(rate: float, rows: float, what: str) -> None:
    if not rate > 0:
        raise ModelError(f"{what} has rate {rate} rows/s; give a rate above zero")
    if rows < 0:
        raise ModelError(f"{what} has {rows} rows; give zero or more")


@dataclass(frozen=True)
class Constant:
    """One row every 1/rate seconds; the first after one interval."""

    rate: float
    rows: float = inf
    until: float = inf

    def __post_init__(self) -> None:
        _check(self.rate, self.rows, "a constant arrival process")

    def times(self, random: Random) -> Iterator[float]:
        number = 0
        while number < self.rows:
            number += 1
            moment = number / self.rate
            if moment > self.until:
                return
            yield moment

    def blocks(self, random: np.random.Generator) -> Iterator[Moments]:
        first = 1
        while first <= self.rows:
            last = min(first + BLOCK - 1, self.rows)
            moments = np.arange(first, last + 1) / self.rate
            first += BLOCK
            yield moments[moments <= self.until]
            if moments[-1] > self.until:
                return


@dataclass(frozen=True)
class Poisson:
    """Exponential times between groups of `together` rows (by default 1; more: one network frame each)."""

    rate: float
    rows: float = inf
    until: float = inf
    together: int = 1

    def __post_init__(self) -> None:
        _check(self.rate, self.rows, "a Poisson arrival process")
        if self.together < 1:
            raise ModelError(f"{self.together} rows arrive together; give at least one")

    def times(self, random: Random) -> Iterator[float]:
        moment, number = 0.0, 0
        while number < self.rows:
            if number % self.together == 0:
                moment += random.expovariate(self.rate / self.together)
            if moment > self.until:
                return
            number += 1
            yield moment

    def blocks(self, random: np.random.Generator) -> Iterator[Moments]:
        moment, number = 0.0, 0
        groups = max(BLOCK // self.together, 1)
        while number < self.rows:
            times = moment + np.cumsum(random.exponential(self.together / self.rate, groups))
            moment = float(times[-1])
            moments = np.repeat(times, self.together)[: int(min(self.rows - number, groups * self.together))]
            number += len(moments)
            yield from _parts(moments[moments <= self.until])
            if moment > self.until:
                return


@dataclass(frozen=True)
class ChangingPoisson:
    """Poisson with a mean that changes every `every` seconds (002 §4.1).

    The rates are used in turn; with `draw`, each mean is drawn uniformly between the lowest and the highest.
    """

    rates: Sequence[float]
    every: float = 5.0
    until: float = inf
    draw: bool = False

    def __post_init__(self) -> None:
        if not self.rates:
            raise ModelError("a Poisson process with changing mean needs at least one rate")
        for rate in self.rates:
            _check(rate, 0, "a Poisson arrival process with changing mean")
        if not self.every > 0:
            raise ModelError(f"the mean changes every {self.every} s; give seconds above zero")

    @property
    def rate(self) -> float:
        return sum(self.rates) / len(self.rates)

    def times(self, random: Random) -> Iterator[float]:
        number = 0
        low, high = min(self.rates), max(self.rates)
        while True:
            start = number * self.every
            if start >= self.until:
                return
            rate = random.uniform(low, high) if self.draw else self.rates[number % len(self.rates)]
            number += 1
            moment = start
            # A Poisson process is memoryless, so it can restart at each change of the mean.
            while (moment := moment + random.expovariate(rate)) < start + self.every:
                if moment > self.until:
                    return
                yield moment

    def blocks(self, random: np.random.Generator) -> Iterator[Moments]:
        number = 0
        low, high = min(self.rates), max(self.rates)
        while (start := number * self.every) < self.until:
            rate = random.uniform(low, high) if self.draw else self.rates[number % len(self.rates)]
            number += 1
            # Given their number, the arrivals of a Poisson process are uniform.
            moments = start + np.sort(random.random(random.poisson(rate * self.every))) * self.every
            yield from _parts(moments[moments <= self.until])


@dataclass(frozen=True)
class Bursts:
    """Consecutive phases of (rows, rate), at a constant or Poisson rate (000 §6.6, 003 §6.5).

    `repeat`: the first phase follows the last.
    """

    phases: Sequence[tuple[float, float]]
    poisson: bool = False
    repeat: bool = False

    def __post_init__(self) -> None:
        if not self.phases:
            raise ModelError("bursts need at least one phase of (rows, rate)")
        for rows, rate in self.phases:
            _check(rate, rows, "a phase of bursts")
        if self.repeat and not any(rows >= 1 for rows, _ in self.phases):
            raise ModelError("bursts that repeat need a phase of at least one row")

    @property
    def rate(self) -> float:
        return sum(rows for rows, _ in self.phases) / sum(rows / rate for rows, rate in self.phases)

    def times(self, random: Random) -> Iterator[float]:
        moment = 0.0
        for rows, rate in self._in_turn():
            for _ in range(int(rows)):
                moment += random.expovariate(rate) if self.poisson else 1 / rate
                yield moment

    def blocks(self, random: np.random.Generator) -> Iterator[Moments]:
        moment = 0.0
        for rows, rate in self._in_turn():
            for first in range(0, int(rows), BLOCK):
                count = min(BLOCK, int(rows) - first)
                gaps = random.exponential(1 / rate, count) if self.poisson else np.full(count, 1 / rate)
                moments = moment + np.cumsum(gaps)
                moment = float(moments[-1])
                yield moments

    def _in_turn(self) -> Iterator[tuple[float, float]]:
        return cycle(self.phases) if self.repeat else iter(self.phases)


@dataclass(frozen=True)
class RecordedArrivals:
    """Recorded arrival times. Equal times are allowed: rows that arrive together."""

    moments: Sequence[float] | Moments

    def __post_init__(self) -> None:
        moments = np.asarray(self.moments, float)
        if (np.diff(moments) < 0).any():
            raise ModelError("recorded arrival times decrease; sort them")
        if len(moments) and moments[0] < 0:
            raise ModelError(f"recorded arrival time {moments[0]} is negative")

    @property
    def rate(self) -> float:
        if not len(self.moments):
            return 0.0
        return len(self.moments) / max(float(self.moments[-1]), 1e-9)

    def times(self, random: Random) -> Iterator[float]:
        return map(float, self.moments)

    def blocks(self, random: np.random.Generator) -> Iterator[Moments]:
        return _parts(np.asarray(self.moments, float))


def _parts(moments: Moments) -> Iterator[Moments]:
    return (moments[first : first + BLOCK] for first in range(0, len(moments), BLOCK))


def backlog(rows: int) -> RecordedArrivals:
    """`rows` rows that are queued at time zero."""
    return RecordedArrivals((0.0,) * rows)


def bursty(rate: float, peak: float = 10.0, share: float = 1 / 3, cycle: float = 10.0) -> Bursts:
    """Bursts that return every `cycle` seconds: a `share` of the rows arrives at `peak` times the mean `rate`, the
    others slower, so that the mean is `rate`. By default a third of the rows, as in 000 §6.6.

    >>> process = bursty(1000.0)
    >>> round(process.rate), [(round(rows), round(rate)) for rows, rate in process.phases]
    (1000, [(3333, 10000), (6667, 690)])
    """
    _check(rate, 0, "a bursty arrival process")
    if not peak > 1:
        raise ModelError(f"the peak of bursts is {peak} times the mean; give more than 1")
    if not 0 < share < 1:
        raise ModelError(f"{share} of the rows arrive in bursts; give a share between 0 and 1")
    if not rate * cycle * min(share, 1 - share) >= 1:
        raise ModelError(f"a cycle of {cycle} s at {rate} rows/s has less than a row in a phase; give a longer cycle")
    fast = round(rate * cycle * share)
    slow = round(rate * cycle) - fast
    return Bursts(((fast, rate * peak), (slow, slow / (cycle - fast / (rate * peak)))), poisson=True, repeat=True)

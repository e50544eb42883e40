"""Arrival processes: Poisson, Poisson with a changing mean, bursts, constant rate, recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Protocol

from headgate.scheduling.errors import ModelError


class Arrivals(Protocol):
    """An arrival process. `times` yields the arrival time of each row in non-decreasing order."""

    @property
    def rate(self) -> float:
        """Mean rate (rows/s), used where statistics are known in advance."""
        ...

    def times(self, random: Random) -> Iterator[float]: ...


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


@dataclass(frozen=True)
class Bursts:
    """Consecutive phases of (rows, rate), at a constant or Poisson rate (000 §6.6, 003 §6.5)."""

    phases: Sequence[tuple[float, float]]
    poisson: bool = False

    def __post_init__(self) -> None:
        if not self.phases:
            raise ModelError("bursts need at least one phase of (rows, rate)")
        for rows, rate in self.phases:
            _check(rate, rows, "a phase of bursts")

    @property
    def rate(self) -> float:
        return sum(rows for rows, _ in self.phases) / sum(rows / rate for rows, rate in self.phases)

    def times(self, random: Random) -> Iterator[float]:
        moment = 0.0
        for rows, rate in self.phases:
            for _ in range(int(rows)):
                moment += random.expovariate(rate) if self.poisson else 1 / rate
                yield moment


@dataclass(frozen=True)
class RecordedArrivals:
    """Recorded arrival times. Equal times are allowed: rows that arrive together."""

    moments: Sequence[float]

    def __post_init__(self) -> None:
        if any(later < earlier for earlier, later in zip(self.moments, self.moments[1:], strict=False)):
            raise ModelError("recorded arrival times decrease; sort them")
        if self.moments and self.moments[0] < 0:
            raise ModelError(f"recorded arrival time {self.moments[0]} is negative")

    @property
    def rate(self) -> float:
        if not self.moments:
            return 0.0
        return len(self.moments) / max(self.moments[-1], 1e-9)

    def times(self, random: Random) -> Iterator[float]:
        return iter(self.moments)


def backlog(rows: int) -> RecordedArrivals:
    """`rows` rows that are queued at time zero."""
    return RecordedArrivals((0.0,) * rows)

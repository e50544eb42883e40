"""Processing costs per row of a modelled operator: fixed, normally distributed, or recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random
from typing import Protocol

from headgate.scheduling.errors import ModelError


class Cost(Protocol):
    """Seconds of processing per row. `drawer` returns a function that gives the next row's cost."""

    @property
    def mean(self) -> float: ...

    def drawer(self, random: Random) -> Drawer: ...


class Drawer(Protocol):
    def __call__(self) -> float: ...


@dataclass(frozen=True)
class FixedCost:
    """Every row costs the same."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ModelError(f"a fixed cost of {self.seconds} s per row is not above zero")

    @property
    def mean(self) -> float:
        return self.seconds

    def drawer(self, random: Random) -> Drawer:
        return lambda: self.seconds


@dataclass(frozen=True)
class NormalCost:
    """Normally distributed, with a share of outliers from a second normal distribution (001 §6).

    Costs are at least a hundredth of the mean: none is zero or negative.
    """

    average: float
    deviation: float
    outliers: float = 0.0
    outlier_average: float = 0.0
    outlier_deviation: float = 0.0

    def __post_init__(self) -> None:
        if not self.average > 0 or self.deviation < 0 or self.outlier_deviation < 0:
            raise ModelError(f"a normal cost of {self.average} ± {self.deviation} s is not above zero")
        if not 0 <= self.outliers <= 1 or (self.outliers and not self.outlier_average > 0):
            raise ModelError(f"outliers of {self.outliers} must be a share from 0 to 1 with a positive average")

    @property
    def mean(self) -> float:
        return (1 - self.outliers) * self.average + self.outliers * self.outlier_average

    def drawer(self, random: Random) -> Drawer:
        def draw() -> float:
            if self.outliers and random.random() < self.outliers:
                return max(random.gauss(self.outlier_average, self.outlier_deviation), self.outlier_average / 100)
            return max(random.gauss(self.average, self.deviation), self.average / 100)

        return draw


@dataclass(frozen=True)
class RecordedCosts:
    """Recorded costs, in order; after the last one the sequence repeats."""

    seconds: Sequence[float]

    def __post_init__(self) -> None:
        if not self.seconds or not min(self.seconds) > 0:
            raise ModelError("recorded costs must be at least one, all above zero")

    @property
    def mean(self) -> float:
        return sum(self.seconds) / len(self.seconds)

    def drawer(self, random: Random) -> Drawer:
        return cycle(self.seconds).__next__


def cost(value: float | Cost) -> Cost:
    """A number means a fixed cost."""
    return FixedCost(float(value)) if isinstance(value, int | float) else value

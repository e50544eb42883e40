"""Learners: which candidate to run next, given the results of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import log, sqrt
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.scheduling.amos.controlled import Situation


class Learner(ABC):
    """Chooses among candidates that have all run at least once. Deterministic by the `random` it is given.

    For a learner with `watches`, `compare` reports the backlog before and after each interval.
    """

    watches: bool = False

    def learn(self, chosen: str, reward: float) -> None:  # noqa: B027 - the wheel learns from the scores alone
        """The candidate ran for an interval and was rewarded (0 to 2, 1 is average)."""

    def compare(  # noqa: B027 - most learners use the rewards alone
        self, chosen: str, before: Situation, after: Situation, weights: Mapping[str, float]
    ) -> None:
        """The backlog when the candidate's interval began and ended, and the weights of the spec."""

    @abstractmethod
    def choose(self, scores: Mapping[str, float], random: Random) -> str:
        """`scores`: each candidate's score by equation 2 of 002."""

    def beliefs(self) -> Mapping[str, float]:
        """What it expects of each candidate, in its own terms; empty if it uses the scores alone."""
        return {}

    def state(self) -> dict[str, Any]:
        """What it has learned, as plain values for JSON."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - the wheel learns from the scores alone
        """Takes over what another learner of its kind has learned."""


class RouletteWheel(Learner):
    """A candidate's chance is proportional to its score (002 §3.5)."""

    def choose(self, scores: Mapping[str, float], random: Random) -> str:
        names: Sequence[str] = list(scores)
        weights = [max(scores[n], 0.0) for n in names]
        if not sum(weights) > 0:
            return random.choice(names)
        return random.choices(names, weights)[0]


class _Discounted(Learner):
    """Rewards per candidate that decay by `gamma` at every step, because the streams change."""

    def __init__(self, gamma: float = 0.95) -> None:
        self.gamma = gamma
        self.count: dict[str, float] = {}
        self.total: dict[str, float] = {}
        self.square: dict[str, float] = {}

    def learn(self, chosen: str, reward: float) -> None:
        for book in (self.count, self.total, self.square):
            for name in book:
                book[name] *= self.gamma
        self.count[chosen] = self.count.get(chosen, 0.0) + 1
        self.total[chosen] = self.total.get(chosen, 0.0) + reward
        self.square[chosen] = self.square.get(chosen, 0.0) + reward * reward

    def state(self) -> dict[str, Any]:
        return {"count": dict(self.count), "total": dict(self.total), "square": dict(self.square)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.count, self.total, self.square = (dict(state[book]) for book in ("count", "total", "square"))

    def mean(self, name: str) -> float:
        return self.total[name] / self.count[name]

    def beliefs(self) -> Mapping[str, float]:
        return {name: self.mean(name) for name, count in self.count.items() if count > 0}


class DiscountedUcb(_Discounted):
    """Discounted upper confidence bound (Garivier and Moulines, 2008): the candidate with the highest bound."""

    def __init__(self, gamma: float = 0.95, width: float = 0.3) -> None:
        super().__init__(gamma)
        self.width = width

    def choose(self, scores: Mapping[str, float], random: Random) -> str:
        tried = [n for n in scores if self.count.get(n, 0.0) > 0]
        fresh = [n for n in scores if n not in tried]
        if fresh:
            return fresh[0]
        everything = log(max(sum(self.count[n] for n in tried), 2.0))
        return max(tried, key=lambda n: self.mean(n) + self.width * sqrt(everything / self.count[n]))


class Thompson(_Discounted):
    """Discounted Thompson sampling with normal beliefs: draw a mean for each candidate, take the best."""

    def choose(self, scores: Mapping[str, float], random: Random) -> str:
        def draw(name: str) -> float:
            count = self.count.get(name, 0.0)
            if count <= 0:
                return random.gauss(1.0, 1.0)
            mean = self.mean(name)
            # A minimum spread, so that a lucky start does not decide forever.
            spread = max(self.square[name] / count - mean * mean, 0.0) ** 0.5 + 0.1
            return random.gauss(mean, spread / sqrt(count))

        return max(scores, key=draw)

"""Scoring policies against history: normalized, decayed, weighted by the spec (002 §3.2–3.4, eq. 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.scheduling.errors import PolicyError, closest
from headgate.scheduling.view import Performance


@dataclass(frozen=True)
class Objective:
    """A measure of the last interval; `sign` is the quantifier q: 1 to maximize, −1 to minimize."""

    name: str
    sign: int

    def measure(self, before: Performance, after: Performance, seconds: float) -> float | None:
        """The value over an interval; None if there is none (no result, so no delay)."""
        if self.name == "output":
            return (after.results - before.results) / seconds
        if self.name == "queue":
            return (after.queued_rows - before.queued_rows) / seconds
        if self.name == "memory":
            return (after.queued_bytes - before.queued_bytes) / seconds
        if self.name == "freshness":
            return (after.staleness - before.staleness) / seconds
        made = after.results - before.results
        return (after.delay - before.delay) / made if made > 0 else None


OBJECTIVES: Mapping[str, Objective] = {
    "output": Objective("output", 1),
    "queue": Objective("queue", -1),
    "memory": Objective("memory", -1),
    "delay": Objective("delay", -1),
    "freshness": Objective("freshness", -1),
}


@dataclass(frozen=True)
class ObjectiveWeights:
    """The spec: weighted objectives whose weights add up to 1 (002 §3.2, Table 3)."""

    weights: Mapping[str, float]

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> ObjectiveWeights:
        for name in weights:
            if name not in OBJECTIVES:
                raise PolicyError(f"unknown objective '{name}' in the spec; {closest(name, OBJECTIVES)}")
        total = sum(weights.values())
        if not weights or not total > 0 or min(weights.values()) < 0:
            raise PolicyError("the spec needs at least one objective with a weight above zero")
        return cls({name: weight / total for name, weight in weights.items()})


class _History:
    """Mean, least and greatest value of a statistic over all policies so far."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.low = float("inf")
        self.high = float("-inf")

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.low = min(self.low, value)
        self.high = max(self.high, value)

    def normalized(self, value: float) -> float:
        """(µ^C − µ^H)/(max^H − min^H): within (−1, 1)."""
        spread = self.high - self.low
        return (value - self.total / self.count) / spread if spread > 0 else 0.0

    def state(self) -> list[float]:
        return [self.count, self.total, self.low, self.high] if self.count else []

    def restore(self, state: Sequence[float]) -> None:
        if state:
            self.count, (self.total, self.low, self.high) = int(state[0]), state[1:]


class Scores:
    """The scores of all candidates; a candidate that has not run has none."""

    def __init__(self, decay: float) -> None:
        if not 0 <= decay < 1:
            raise PolicyError(f"a decay of {decay} is not from 0 up to 1")
        self.decay = decay
        self._history = {name: _History() for name in OBJECTIVES}
        self._z: dict[str, dict[str, float]] = {}

    def update(self, policy: str, values: Mapping[str, float]) -> None:
        """Add the measures of the running policy; all objectives are kept, so the spec may change at any time."""
        own = self._z.setdefault(policy, {})
        for name, value in values.items():
            self._history[name].add(value)
            fresh = self._history[name].normalized(value)
            # Equation 1; the first time there is no old score, so nothing decays.
            decay = self.decay if name in own else 0.0
            own[name] = fresh * (1 - decay) + own.get(name, 0.0) * decay

    def score(self, policy: str, spec: ObjectiveWeights) -> float | None:
        """Equation 2: Σ q_i·z_i·w_i + 1, within (0, 2)."""
        own = self._z.get(policy)
        if own is None:
            return None
        return 1 + sum(OBJECTIVES[n].sign * own.get(n, 0.0) * w for n, w in spec.weights.items())

    def reward(self, values: Mapping[str, float], spec: ObjectiveWeights) -> float:
        """The score of the last interval alone, within (0, 2); the bandit learners learn from it."""
        return 1 + sum(
            OBJECTIVES[n].sign * self._history[n].normalized(values[n]) * w
            for n, w in spec.weights.items()
            if n in values
        )

    def state(self) -> dict[str, Any]:
        """All measures so far, as plain values for JSON."""
        history = {name: history.state() for name, history in self._history.items()}
        return {"history": history, "scores": {name: dict(own) for name, own in self._z.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes over the measures of other scores."""
        for name, known in state["history"].items():
            self._history[name].restore(known)
        self._z = {name: dict(own) for name, own in state["scores"].items()}

"""A learner that compares candidates at equal load: the backlog each leaves, given the backlog it found.

The result of an interval depends far more on its load than on the policy that runs in it, and a delay is known only
when the result is delivered, perhaps under another policy. So this learner uses the backlog: by Little's law the total
delay of results is the area under the number of results still due. A processor that is never idle delivers more results
if it loses less time (to start-up costs, for example): lost time shows in the remaining work. A regression over all
intervals explains the backlog at an interval's end by the backlog at its start, the arrivals, and the candidate that
ran. The effect of a candidate is a constant plus a share of the waiting work: one algorithm may be best in a burst and
another after it. The next candidate is drawn by Thompson sampling from the distribution of these effects at the present
backlog. All quantities are square roots, so that the variance of counts does not depend on the size of the backlog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.scheduling.amos.learners import Learner
from headgate.scheduling.view import View
from headgate.scheduling.yields import downstream

Floats = NDArray[np.float64]

# The level that each objective minimizes: results due, waiting rows, their bytes, remaining work.
LEVELS: Mapping[str, int] = {"delay": 0, "queue": 1, "memory": 2, "output": 3, "freshness": 0}
_COUNT = 4
CONTROLS = 5
# The effect of a candidate: a constant, and a multiple of the root of the waiting work.
EFFECTS = 2
RIDGE = 0.3


@dataclass(frozen=True, slots=True)
class Situation:
    """The backlog at a moment: the results that it will give, its rows, its bytes and the work it takes (s).

    `delivered` is the number of results so far.
    """

    due: float
    rows: float
    bytes: float
    work: float
    delivered: float

    @classmethod
    def of(cls, view: View) -> Situation:
        everything = cls.of_edges(view, range(len(view.topology.edges)), view.performance.results)
        return replace(everything, bytes=view.queues.memory)

    @classmethod
    def of_edges(cls, view: View, edges: Iterable[int], delivered: float) -> Situation:
        """The backlog on some edges, whose queries have delivered so many results."""
        cost, results = downstream(view)
        waiting, size = view.queues.rows, view.queues.bytes
        due = work = rows = held = 0.0
        for e in edges:
            consumer = view.topology.edges[e].consumer
            due += waiting[e] * results[consumer]
            work += waiting[e] * cost[consumer]
            rows += waiting[e]
            held += size[e]
        return cls(due, rows, held, work, delivered)


class ControlledThompson(Learner):
    """Thompson sampling over the candidates' effects, controlled for load; old intervals decay by `gamma`."""

    watches = True

    def __init__(self, gamma: float = 0.998) -> None:
        self.gamma = gamma
        self._places: dict[str, int] = {}
        self._weights = np.zeros(_COUNT)
        self._intervals = 0.0
        self._present = 0.0
        # Sums of the regression: features × features, features × levels, levels × levels.
        self._features = np.eye(CONTROLS) * RIDGE
        self._cross = np.zeros((CONTROLS, _COUNT))
        self._levels = np.zeros((_COUNT, _COUNT))

    def compare(self, chosen: str, before: Situation, after: Situation, weights: Mapping[str, float]) -> None:
        """Learn from an interval. `weights` are the spec's; they may differ from call to call."""
        if chosen not in self._places:
            self._grow(chosen)
        arrived = max(after.due - before.due + after.delivered - before.delivered, 0.0)
        features = np.zeros(len(self._features))
        features[:CONTROLS] = [sqrt(x) for x in (before.due, before.rows, before.due + arrived, arrived, before.work)]
        place = CONTROLS + EFFECTS * self._places[chosen]
        features[place : place + EFFECTS] = 1.0, sqrt(before.work)
        self._present = sqrt(after.work)
        levels = np.array([sqrt(max(level, 0.0)) for level in (after.due, after.rows, after.bytes, after.work)])
        # The ridge does not decay: it is the prior.
        ridge = np.eye(len(features)) * RIDGE * (1 - self.gamma)
        self._features = self._features * self.gamma + np.outer(features, features) + ridge
        self._cross = self._cross * self.gamma + np.outer(features, levels)
        self._levels = self._levels * self.gamma + np.outer(levels, levels)
        self._intervals = self._intervals * self.gamma + 1
        self._weights = np.zeros(_COUNT)
        for name, weight in weights.items():
            self._weights[LEVELS[name]] += weight

    def choose(self, scores: Mapping[str, float], random: Random) -> str:
        for name in scores:
            if name not in self._places:
                return name
        effects = self._draw(random)
        return min(scores, key=lambda name: effects[self._places[name]])

    def state(self) -> dict[str, Any]:
        sums = {"features": self._features, "cross": self._cross, "levels": self._levels, "weights": self._weights}
        return {
            "places": dict(self._places),
            "intervals": self._intervals,
            **{name: sum_.tolist() for name, sum_ in sums.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        if len(state["features"]) != CONTROLS + EFFECTS * len(state["places"]):
            return  # of a Headgate whose regression had other features: learn anew
        self._places = dict(state["places"])
        self._intervals = state["intervals"]
        self._features, self._cross, self._levels, self._weights = (
            np.array(state[name], np.float64) for name in ("features", "cross", "levels", "weights")
        )

    def _draw(self, random: Random) -> Floats:
        """An effect for each candidate at the present backlog, drawn from the regression's posterior; less is better.

        The regression is linear in the levels, so the present weights apply to all earlier intervals.
        """
        weights, cross, spread, mean = self._fit()
        unexplained = float(weights @ self._levels @ weights - mean @ cross)
        variance = max(unexplained / max(self._intervals - len(mean), 1.0), 1e-9)
        root = np.linalg.cholesky(spread[CONTROLS:, CONTROLS:] * variance)
        noise = np.array([random.gauss(0.0, 1.0) for _ in range(EFFECTS * len(self._places))])
        drawn: Floats = mean[CONTROLS:] + root @ noise
        return drawn[0::EFFECTS] + drawn[1::EFFECTS] * self._present

    def _fit(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The weights of the levels, and the regression under them: cross products, spread and means."""
        # Results, rows, bytes and seconds are scaled by their usual sizes before they are weighted.
        usual = np.sqrt(np.maximum(np.diag(self._levels) / max(self._intervals, 1.0), 1e-12))
        weights = self._weights / usual
        cross = self._cross @ weights
        spread: Floats = np.linalg.inv(self._features).astype(np.float64)
        return weights, cross, spread, spread @ cross

    def beliefs(self) -> Mapping[str, float]:
        """The mean effect of each candidate on the weighted backlog; less is better."""
        mean = self._fit()[3][CONTROLS:]
        effects = mean[0::EFFECTS] + mean[1::EFFECTS] * self._present
        return {name: float(effects[place]) for name, place in self._places.items()}

    def _grow(self, name: str) -> None:
        """Adds a feature for a new candidate."""
        self._places[name] = len(self._places)
        size = len(self._features)
        features = np.eye(size + EFFECTS) * RIDGE
        features[:size, :size] = self._features
        self._features = features
        self._cross = np.vstack([self._cross, np.zeros((EFFECTS, _COUNT))])

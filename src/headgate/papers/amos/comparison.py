"""Runs of AMoS and of the algorithms it selects from on the same tuples, and how they compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.outcome import Series
from headgate.papers.amos.plans import BIN, LEARNERS, SINGLE, AmosRun, Floats, amos, numbers, run

# The quantifier q of each objective (002 §3.2), and its label with unit.
SIGN = {"delay": -1, "output": 1, "queue": -1}
LABEL = {"delay": "tuple delay (s)", "output": "results per second", "queue": "tuples in queues"}


@dataclass(frozen=True)
class Comparison:
    """The runs of every algorithm, by label, on the same seeds in the same order."""

    runs: Mapping[str, Sequence[AmosRun]]

    @classmethod
    def of(
        cls,
        weights: Mapping[str, float],
        seed: int,
        seeds: int,
        seconds: float,
        learners: Mapping[str, str] = LEARNERS,
    ) -> Comparison:
        """Every single algorithm, and AMoS with each learner."""
        runs: dict[str, list[AmosRun]] = {label: [] for label in (*SINGLE, *learners)}
        for number in numbers(seed, seeds):
            for label, policy in SINGLE.items():
                runs[label].append(run(policy, number, seconds))
            for label, learner in learners.items():
                runs[label].append(run(amos(learner, weights, number), number, seconds))
        return cls(runs)

    def values(self, label: str, objective: str) -> Floats:
        """An objective of each run."""
        return np.array([getattr(one, objective) for one in self.runs[label]])

    def means(self, objective: str) -> dict[str, float]:
        """The mean of an objective over the runs, by label."""
        return {label: float(self.values(label, objective).mean()) for label in self.runs}

    def scores(self, weights: Mapping[str, float]) -> dict[str, Floats]:
        """Equations 1 and 2 of 002 over whole runs: Σ q·w·(x − mean)/(max − min) + 1, over the single algorithms."""
        scored = {label: np.ones(len(runs)) for label, runs in self.runs.items()}
        for objective, weight in weights.items():
            single = np.array([self.values(label, objective) for label in SINGLE])
            spread = float(np.ptp(single.mean(axis=1)))
            for label, scores in scored.items():
                if spread > 0:
                    scores += SIGN[objective] * weight * (self.values(label, objective) - single.mean(axis=0)) / spread
        return scored

    def won(self, scored: Mapping[str, Floats], label: str) -> float:
        """The share of runs in which a label's score is above that of every single algorithm."""
        best = np.max([scored[single] for single in SINGLE], axis=0)
        return float(np.mean(scored[label] > best))

    def behind_best(self, objective: str, label: str) -> float:
        """How far a label is behind the best single algorithm on an objective, in standard errors of the difference."""
        means = self.means(objective)
        best = max(SINGLE, key=lambda single: SIGN[objective] * means[single])
        return in_errors(SIGN[objective] * (self.values(best, objective) - self.values(label, objective)))

    def shortest_share(self, label: str) -> float:
        """The share of five-second bins, over all runs, in which a label has shorter queues than every single one."""
        best = np.min([[one.queues for one in self.runs[single]] for single in SINGLE], axis=0)
        mine = np.array([one.queues for one in self.runs[label]])
        return float(np.mean(mine < best))

    def time_shares(self, label: str) -> dict[str, float]:
        """The share of time in which AMoS ran each candidate, over all runs."""
        names = {name: 0.0 for one in self.runs[label] for name in one.shares}
        return {name: float(np.mean([one.shares.get(name, 0.0) for one in self.runs[label]])) for name in names}

    def series(self, objectives: Sequence[str], seconds: float) -> list[Series]:
        """Each objective over time, over all runs."""
        moments = [float(t) for t in np.arange(BIN, seconds + BIN / 2, BIN)]
        series = []
        for objective in objectives:
            for label, several in self.runs.items():
                results = np.sum([one.results for one in several], axis=0)
                if objective == "queue":
                    values = np.mean([one.queues for one in several], axis=0)
                elif objective == "output":
                    values = np.cumsum(results) / np.array(moments) / len(several)
                else:
                    values = np.sum([one.delays for one in several], axis=0) / np.maximum(results, 1)
                panel = LABEL[objective] if objective != "output" else "results per second since the start"
                series.append(Series(label, moments, [float(v) for v in values], panel))
        return series


def in_errors(differences: Floats) -> float:
    """The mean of paired differences in units of its standard error."""
    if len(differences) < 2:
        return 0.0
    error = float(differences.std(ddof=1) / np.sqrt(len(differences)))
    return float(differences.mean()) / max(error, 1e-12)

"""Ours, after 002 §3.5: AMoS with other learners instead of the roulette wheel, for the specs of Figs. 5–9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.outcome import Figures, Outcome, Series
from headgate.papers.amos.plans import CANDIDATES, CHANGE, INTERVAL, PLANS, SECONDS, SINGLE, SWITCH, amos, run
from headgate.papers.amos.selection import SIGN

Floats = NDArray[np.float64]

SEEDS = 20
WHEEL, OURS = "wheel", "controlled"
LEARNERS = (WHEEL, "ucb", "thompson", OURS)
THIRD = 1 / 3
# Plan and weights of each figure.
SPECS: Mapping[str, tuple[int, Mapping[str, float]]] = {
    "delay (Fig. 5)": (1, {"delay": 1.0}),
    "queue (Fig. 6)": (1, {"queue": 1.0}),
    "70-30 (Fig. 7)": (1, {"delay": 0.7, "output": 0.3}),
    "30-70 (Fig. 8)": (1, {"delay": 0.3, "output": 0.7}),
    "equal (Fig. 9)": (2, {"delay": THIRD, "output": THIRD, "queue": THIRD}),
}
# Differences below this number of standard errors count as noise.
NOISE = 2.0


@dataclass(frozen=True)
class Gain:
    """Difference between a learner's score and the wheel's: mean over the seeds and its standard error."""

    mean: float
    error: float


def learners(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Every learner with every spec, on the same tuples."""
    numbers = range(seed, seed + seeds)
    scored = {name: _scores(plan, weights, numbers, seconds) for name, (plan, weights) in SPECS.items()}
    gains = {
        learner: {spec: _gain(by_name[learner] - by_name[WHEEL]) for spec, by_name in scored.items()}
        for learner in LEARNERS
        if learner != WHEEL
    }
    overall = {
        learner: _gain(np.mean([by_name[learner] - by_name[WHEEL] for by_name in scored.values()], axis=0))
        for learner in gains
    }
    places = list(range(1, len(SPECS) + 1))
    return Outcome(
        name="amos-learners",
        source="ours, after 002 §3.5",
        claim="Our learner scores better than the roulette wheel on average and is worse on no spec",
        paper={},
        measured={
            "score": {spec: {name: float(v.mean()) for name, v in by_name.items()} for spec, by_name in scored.items()},
            "better than the wheel by": {
                learner: {
                    **{spec: gain.mean for spec, gain in of.items()},
                    "all": overall[learner].mean,
                    "all, in standard errors": overall[learner].mean / overall[learner].error,
                    "worst spec, in standard errors": min(gain.mean / gain.error for gain in of.values()),
                }
                for learner, of in gains.items()
            },
        },
        rule=_rule,
        setup={
            "seed": seed,
            "seeds": list(numbers),
            "specs": {name: {"plan": plan, "weights": dict(weights)} for name, (plan, weights) in SPECS.items()},
            "plans": {number: plan.name for number, plan in PLANS.items()},
            "learners": list(LEARNERS),
            "candidates": CANDIDATES,
            "least time a candidate runs": INTERVAL,
            "arrivals": f"Poisson; the mean is drawn every {CHANGE:g} s",
            "seconds of arrivals": seconds,
            "start-up cost of an operator (s)": SWITCH,
            "score": "equations 1 and 2 of 002 over a whole run, with the four single algorithms as the history",
            "noise": f"{NOISE:g} standard errors of the paired difference",
        },
        series=[
            Series(name, places, [float(by_name[name].mean()) for by_name in scored.values()])
            for name in (*LEARNERS, *SINGLE)
        ],
        axes=(f"spec: {', '.join(f'{n} {name}' for n, name in enumerate(SPECS, 1))}", "score (higher is better)"),
    )


def _rule(paper: Figures, measured: Figures) -> bool:
    ours = measured["better than the wheel by"][OURS]
    return bool(ours["all, in standard errors"] > NOISE and ours["worst spec, in standard errors"] >= -NOISE)


def _scores(plan: int, weights: Mapping[str, float], seeds: Sequence[int], seconds: float) -> dict[str, Floats]:
    """Scores of the runs, by learner or single algorithm; objectives are normalized over all seeds."""
    policies = {name: [text] * len(seeds) for name, text in SINGLE.items()}
    for learner in LEARNERS:
        policies[learner] = [amos(learner, weights, number) for number in seeds]
    runs = {
        name: [run(plan, text, number, seconds) for text, number in zip(texts, seeds, strict=True)]
        for name, texts in policies.items()
    }
    scored = {name: np.ones(len(seeds)) for name in runs}
    for objective, weight in weights.items():
        values = {name: np.array([getattr(one, objective) for one in found]) for name, found in runs.items()}
        single = np.array([values[name] for name in SINGLE])
        spread = float(np.ptp(single.mean(axis=1)))
        for name, found in values.items():
            if spread > 0:
                scored[name] += SIGN[objective] * weight * (found - single.mean(axis=0)) / spread
    return scored


def _gain(differences: Floats) -> Gain:
    error = float(differences.std(ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else float("inf")
    return Gain(float(differences.mean()), max(error, 1e-12))

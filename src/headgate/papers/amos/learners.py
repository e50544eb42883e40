"""Ours, after 002 §3.5: AMoS with other learners instead of the roulette wheel, for the specs of Figs. 5–9."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.outcome import Figures, Outcome, Series
from headgate.papers.amos.comparison import Comparison
from headgate.papers.amos.plans import SECONDS, SEEDS, SINGLE, Floats, setup
from headgate.papers.amos.selection import DELAY_30, DELAY_70, EQUAL, NOISE

WHEEL, OURS = "wheel", "controlled"
LEARNERS = (WHEEL, "ucb", "thompson", OURS)
SPECS: Mapping[str, Mapping[str, float]] = {
    "delay (Fig. 5)": {"delay": 1.0},
    "queue (Fig. 6)": {"queue": 1.0},
    "70-30 (Fig. 7)": DELAY_70,
    "30-70 (Fig. 8)": DELAY_30,
    "equal (Fig. 9)": EQUAL,
}


@dataclass(frozen=True)
class Gain:
    """Difference between a learner's score and the wheel's: mean over the seeds and its standard error."""

    mean: float
    error: float


def learners(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Every learner with every spec, on the same tuples."""
    names = {name: name for name in LEARNERS}
    scored = {
        spec: Comparison.of(weights, seed, seeds, seconds, names).scores(weights) for spec, weights in SPECS.items()
    }
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
        claim="Our learner scores better than the roulette wheel on every spec, and over all by two standard errors",
        paper={},
        measured={
            "score": {spec: {name: float(v.mean()) for name, v in by_name.items()} for spec, by_name in scored.items()},
            "better than the wheel by": {
                learner: {**{spec: gain.mean for spec, gain in of.items()}, "all": overall[learner].mean}
                for learner, of in gains.items()
            },
            "in standard errors": {
                learner: {
                    **{spec: gain.mean / gain.error for spec, gain in of.items()},
                    "all": overall[learner].mean / overall[learner].error,
                }
                for learner, of in gains.items()
            },
        },
        rule=ahead_on_every_spec,
        setup={
            **setup(seed, seeds, seconds),
            "specs": {name: dict(weights) for name, weights in SPECS.items()},
            "learners": list(LEARNERS),
            "score": "equations 1 and 2 of 002 over a whole run, with the four single algorithms as the history",
        },
        series=[
            Series(name, places, [float(by_name[name].mean()) for by_name in scored.values()])
            for name in (*LEARNERS, *SINGLE)
        ],
        axes=(f"spec: {', '.join(f'{n} {name}' for n, name in enumerate(SPECS, 1))}", "score (higher is better)"),
    )


def ahead_on_every_spec(paper: Figures, measured: Figures) -> bool:
    ahead = measured["in standard errors"][OURS]
    return all(errors > 0 for errors in ahead.values()) and bool(ahead["all"] > NOISE)


def _gain(differences: Floats) -> Gain:
    error = float(differences.std(ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else float("inf")
    return Gain(float(differences.mean()), max(error, 1e-12))

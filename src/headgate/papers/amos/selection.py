"""002 §4, Figs. 5–9: AMoS compared with the algorithms it selects from, for one objective and for several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headgate.outcome import Figures, Outcome, Series
from headgate.papers.amos.plans import (
    BIN,
    CANDIDATES,
    CHANGE,
    INTERVAL,
    LEARNERS,
    PLANS,
    SECONDS,
    SINGLE,
    SLICE,
    SWITCH,
    AmosRun,
    amos,
    run,
)

SEEDS = 20
WITHIN = 2.0
# The quantifier q of each objective (002 §3.2), and its label with unit.
SIGN = {"delay": -1, "output": 1, "queue": -1}
LABEL = {"delay": "tuple delay (s)", "output": "results per second", "queue": "tuples in queues"}

Averages = Mapping[str, Mapping[str, float]]


def delay(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 5: the objective is tuple delay."""
    return _one("amos-delay", "002 Fig. 5", "delay", seed, seeds, seconds)


def queue(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 6: the objective is total queue size."""
    return _one("amos-queue", "002 Fig. 6", "queue", seed, seeds, seconds)


def delay_70_rate_30(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 7: 70% tuple delay, 30% output rate."""
    return _several("amos-70-30", "002 Fig. 7", 1, {"delay": 0.7, "output": 0.3}, seed, seeds, seconds)


def delay_30_rate_70(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 8: 30% tuple delay, 70% output rate."""
    return _several("amos-30-70", "002 Fig. 8", 1, {"delay": 0.3, "output": 0.7}, seed, seeds, seconds)


def equal(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 9: three objectives with equal weights, on plan 2."""
    weights = {"delay": 1 / 3, "output": 1 / 3, "queue": 1 / 3}
    return _several("amos-equal", "002 Fig. 9", 2, weights, seed, seeds, seconds)


def _one(name: str, source: str, objective: str, seed: int, seeds: int, seconds: float) -> Outcome:
    runs = _runs(1, {objective: 1.0}, seed, seeds, seconds)
    values = {label: figures[objective] for label, figures in _averages(runs).items()}
    best = min(SINGLE, key=lambda label: values[label])
    above = {label: (values[label] / values[best] - 1) * 100 for label in LEARNERS}
    time_shares = {
        f"{label}, time given to {best} (%)": 100
        * float(np.mean([one.shares.get(best.lower(), 0.0) for one in runs[label]]))
        for label in LEARNERS
    }
    return Outcome(
        name=name,
        source=source,
        claim=f"With {objective} as the only objective, AMoS is within {WITHIN:g}% of the best single algorithm",
        paper={
            **{f"{LABEL[objective]}, {label}": None for label in values},
            **{f"{label}, above the best single (%)": 0.0 if label == "AMoS" else None for label in LEARNERS},
            **dict.fromkeys(time_shares),
        },
        measured={
            **{f"{LABEL[objective]}, {label}": value for label, value in values.items()},
            **{f"{label}, above the best single (%)": value for label, value in above.items()},
            **time_shares,
        },
        rule=_no_worse,
        setup=_setup(1, {objective: 1.0}, seed, seeds, seconds),
        series=_series(runs, [objective], seconds),
        axes=("time (s)", ""),
    )


def _several(
    name: str, source: str, plan: int, weights: Mapping[str, float], seed: int, seeds: int, seconds: float
) -> Outcome:
    runs = _runs(plan, weights, seed, seeds, seconds)
    averages = _averages(runs)
    scored = scores(averages, weights)
    shown = {
        **{f"score, {label}": value for label, value in scored.items()},
        **{f"{LABEL[o]}, {label}": averages[label][o] for o in weights for label in averages},
    }
    objectives = ", ".join(f"{weight:.0%} {objective}" for objective, weight in weights.items())
    return Outcome(
        name=name,
        source=source,
        claim=f"With weights {objectives}, AMoS scores better than each single algorithm",
        paper={**dict.fromkeys(shown), **{f"{label}: better than each": label == "AMoS" or None for label in LEARNERS}},
        measured={**shown, **{f"{label}: better than each": _beats(scored, label) for label in LEARNERS}},
        rule=_better_than_each,
        setup=_setup(plan, weights, seed, seeds, seconds),
        series=_series(runs, list(weights), seconds),
        axes=("time (s)", ""),
    )


def scores(averages: Averages, weights: Mapping[str, float]) -> dict[str, float]:
    """Equations 1 and 2 of 002 over whole runs: Σ q·w·(x − mean)/(max − min) + 1, over the single algorithms."""
    scored = dict.fromkeys(averages, 1.0)
    for objective, weight in weights.items():
        single = [averages[label][objective] for label in SINGLE]
        mean, spread = sum(single) / len(single), max(single) - min(single)
        for label, figures in averages.items():
            if spread > 0:
                scored[label] += SIGN[objective] * weight * (figures[objective] - mean) / spread
    return scored


def _no_worse(paper: Figures, measured: Figures) -> bool:
    key = "AMoS, above the best single (%)"
    return bool(measured[key] <= paper[key] + WITHIN)


def _better_than_each(paper: Figures, measured: Figures) -> bool:
    return all(measured["score, AMoS"] > measured[f"score, {label}"] for label in SINGLE)


def _beats(scored: Mapping[str, float], subject: str) -> bool:
    return all(scored[subject] > scored[label] for label in SINGLE)


Runs = Mapping[str, Sequence[AmosRun]]


def _runs(plan: int, weights: Mapping[str, float], seed: int, seeds: int, seconds: float) -> Runs:
    """Every single algorithm, and AMoS with each learner, on the same tuples."""
    runs: dict[str, list[AmosRun]] = {label: [] for label in (*SINGLE, *LEARNERS)}
    for number in range(seed, seed + seeds):
        for label, policy in SINGLE.items():
            runs[label].append(run(plan, policy, number, seconds))
        for label, learner in LEARNERS.items():
            runs[label].append(run(plan, amos(learner, weights, number), number, seconds))
    return runs


def _averages(runs: Runs) -> dict[str, dict[str, float]]:
    return {
        label: {o: float(np.mean([getattr(one, o) for one in several])) for o in SIGN}
        for label, several in runs.items()
    }


def _series(runs: Runs, objectives: Sequence[str], seconds: float) -> list[Series]:
    """Each objective over time, over all seeds."""
    moments = [float(t) for t in np.arange(BIN, seconds + BIN / 2, BIN)]
    series = []
    for objective in objectives:
        for label, several in runs.items():
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


def _setup(plan: int, weights: Mapping[str, float], seed: int, seeds: int, seconds: float) -> dict[str, object]:
    chosen = PLANS[plan]
    return {
        "seed": seed,
        "seeds": list(range(seed, seed + seeds)),
        "plan": chosen.name,
        "inputs": {name: list(inputs) for name, inputs in chosen.inputs.items()},
        "operators": {name: str(model) for name, model in chosen.models.items()},
        "arrivals": f"Poisson; the mean is drawn every {CHANGE:g} s, uniformly from these rates (tuples/s)",
        "rates": {name: list(rates) for name, rates in chosen.rates.items()},
        "seconds of arrivals": seconds,
        "start-up cost of an operator (s)": SWITCH,
        "time slice of RR": SLICE,
        "single algorithms": dict(SINGLE),
        "candidates": CANDIDATES,
        "weights": dict(weights),
        "least time a candidate runs": INTERVAL,
        "decay": 0.3,
        "learners": dict(LEARNERS),
        "AMoS is": "the paper's (roulette wheel); our learner (comparison at equal load) is shown for comparison",
    }

"""002 Figs. 2 and 5–9: the single algorithms, and AMoS compared with them. A rule is written from the paper's sentence.

The rules were written before AMoS ran on the present setting. `holds` refers to the paper's roulette wheel; the same
rule applied to our learner is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate.outcome import Figures, Outcome
from headgate.papers.amos.comparison import LABEL, SIGN, Comparison, in_errors
from headgate.papers.amos.plans import LEARNERS, OURS, SECONDS, SEEDS, SINGLE, WHEEL, setup

DELAY_70 = {"delay": 0.7, "output": 0.3}
DELAY_30 = {"delay": 0.3, "output": 0.7}
EQUAL = {"delay": 1 / 3, "output": 1 / 3, "queue": 1 / 3}
OFTEN = 0.5
NEAR = 0.01
NOISE = 2.0

SHORTEST = "share of time bins with shorter queues than every single algorithm"
ABOVE_7 = "output above that of Fig. 7, in standard errors"
BEHIND = "behind the best single algorithm, in standard errors"

Rule = Callable[[Figures, str], bool]


def figure_2(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 2: the single algorithms on the two-stream plan."""
    found = Comparison.of({"delay": 1.0}, seed, seeds, seconds, {})
    names = {"queue": "tuples in queues", "late_delay": "tuple delay near the end (s)", "delay": "tuple delay (s)"}
    return Outcome(
        name="amos-figure-2",
        source="002 Fig. 2",
        claim="Chain and MTIQ have the shortest queues and, near the end, the longest delays; FIFO is among the best "
        "two on delay",
        paper=dict.fromkeys(names.values()),
        measured={name: found.means(key) for key, name in names.items()},
        rule=as_in_figure_2,
        setup=setup(seed, seeds, seconds),
        series=found.series(["queue", "delay"], seconds),
        axes=("time (s)", ""),
    )


def as_in_figure_2(paper: Figures, measured: Figures) -> bool:
    """§2.3: "Chain and MTIQ perform the best … queue sizes"; "MTIQ and Chain end up being the two worst ones near the
    end"; FIFO "actually does quite well minimizing the result latency"."""
    queue, late, delay = (
        measured[key] for key in ("tuples in queues", "tuple delay near the end (s)", "tuple delay (s)")
    )
    shortest = set(sorted(queue, key=queue.__getitem__)[:2])
    worst = set(sorted(late, key=late.__getitem__)[2:])
    return shortest == worst == {"Chain", "MTIQ"} and "FIFO" in sorted(delay, key=delay.__getitem__)[:2]


def below_every(measured: Figures, label: str) -> bool:
    """Fig. 5, §4.2: "outperforms all individual scheduling algorithms with regard to minimizing tuple delay"."""
    delay = measured[LABEL["delay"]]
    return bool(delay[label] < min(delay[single] for single in SINGLE))


def often_shortest(measured: Figures, label: str) -> bool:
    """Fig. 6, §4.2: "also often outperforms any single algorithm in terms of reducing memory overhead"."""
    return bool(measured[SHORTEST][label] >= OFTEN)


def best_compromise(measured: Figures, label: str) -> bool:
    """Fig. 7, §4.3: "outperforms each single algorithm regarding average tuple delay, and performs about average
    regarding the result output rate"; "the overall performance … is better than any of the individual algorithms"."""
    output, score = measured[LABEL["output"]], measured["score"]
    mean = sum(output[single] for single in SINGLE) / len(SINGLE)
    near = abs(output[label] / mean - 1) <= NEAR
    return bool(below_every(measured, label) and near and score[label] > max(score[single] for single in SINGLE))


def more_output(measured: Figures, label: str) -> bool:
    """Fig. 8, §4.3: "still does exceptionally well at minimizing tuple delay, and improves significantly at raising the
    output rate"."""
    delay = measured[LABEL["delay"]]
    better = sum(delay[single] < delay[label] for single in SINGLE)
    return bool(measured[ABOVE_7][label] > NOISE and better <= 1)


def well_on_all(measured: Figures, label: str) -> bool:
    """Fig. 9, §4.4: "performs well under all three performance requirements, with the biggest improvements on average
    tuple delay and memory overhead"."""
    for objective, name in LABEL.items():
        mean = sum(measured[name][single] for single in SINGLE) / len(SINGLE)
        if SIGN[objective] * (measured[name][label] - mean) <= 0 or measured[BEHIND][label][objective] > NOISE:
            return False
    return True


def delay(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 5: the objective is tuple delay."""
    claim = "With delay as the only objective, AMoS has a lower mean delay than every single algorithm"
    return _outcome("amos-delay", "002 Fig. 5", claim, {"delay": 1.0}, below_every, seed, seeds, seconds)


def queue(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 6: the objective is total queue size."""
    claim = f"With queue size as the objective, AMoS has the shortest queues in {OFTEN:.0%} of the time bins or more"
    return _outcome("amos-queue", "002 Fig. 6", claim, {"queue": 1.0}, often_shortest, seed, seeds, seconds)


def delay_70_rate_30(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 7: 70% tuple delay, 30% output rate."""
    claim = (
        "At 70% delay and 30% output: a lower delay than every single algorithm, an output within "
        f"{NEAR:.0%} of their mean, the best score"
    )
    return _outcome("amos-70-30", "002 Fig. 7", claim, DELAY_70, best_compromise, seed, seeds, seconds)


def delay_30_rate_70(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 8: 30% tuple delay, 70% output rate."""
    claim = (
        "At 30% delay and 70% output: a higher output than at 70/30 by two standard errors, a delay among the best two"
    )
    return _outcome("amos-30-70", "002 Fig. 8", claim, DELAY_30, more_output, seed, seeds, seconds)


def equal(seed: int, seeds: int = SEEDS, seconds: float = SECONDS) -> Outcome:
    """Fig. 9: three objectives with equal weights."""
    claim = (
        "With three equal objectives: better than the mean of the single algorithms on each, and not behind the best "
        "single algorithm on any by more than two standard errors"
    )
    return _outcome("amos-equal", "002 Fig. 9", claim, EQUAL, well_on_all, seed, seeds, seconds)


def _outcome(
    name: str, source: str, claim: str, weights: Mapping[str, float], rule: Rule, seed: int, seeds: int, seconds: float
) -> Outcome:
    found = Comparison.of(weights, seed, seeds, seconds)
    measured = figures(found, weights)
    if weights is DELAY_30:
        before = Comparison.of(DELAY_70, seed, seeds, seconds)
        measured[ABOVE_7] = {
            label: in_errors(found.values(label, "output") - before.values(label, "output")) for label in LEARNERS
        }
    measured["the same with our learner"] = rule(measured, OURS)
    return Outcome(
        name=name,
        source=source,
        claim=claim,
        paper={LABEL[objective]: None for objective in weights},
        measured=measured,
        rule=lambda paper, measured: rule(measured, WHEEL),
        setup={**setup(seed, seeds, seconds), "weights": dict(weights)},
        series=found.series(list(weights), seconds),
        axes=("time (s)", ""),
    )


def figures(found: Comparison, weights: Mapping[str, float]) -> dict[str, object]:
    """All figures that the rules read."""
    scored = found.scores(weights)
    return {
        **{name: found.means(objective) for objective, name in LABEL.items()},
        "score": {label: float(scores.mean()) for label, scores in scored.items()},
        "share of runs in which it scores above every single algorithm": {
            label: found.won(scored, label) for label in LEARNERS
        },
        SHORTEST: {label: found.shortest_share(label) for label in LEARNERS},
        BEHIND: {label: {o: found.behind_best(o, label) for o in LABEL} for label in LEARNERS},
        "share of time": {label: found.time_shares(label) for label in LEARNERS},
    }

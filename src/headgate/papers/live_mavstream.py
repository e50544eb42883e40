"""The query of 003 in the real network, compared with the prediction of the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from headgate.outcome import Outcome, Series
from headgate.papers import live_network, mavstream
from headgate.papers.live_network import LiveRun
from headgate.simulation import Arrivals, Bursts, Poisson

RATES = (150, 500, 900)
TUPLES, WINDOW = 250, 100
# Rates are lower and operators slower by this factor, so that the overhead of the network matters less.
SCALE = 3.0
# Two bursts, the second twice as fast.
PHASES = ((40, 40.0), (80, 400.0), (40, 40.0), (120, 800.0), (40, 40.0))
WITHIN = 0.25
QUANTUM = 0.1 * SCALE
POLICIES = {name: text.replace("quantum=1.0s", f"quantum={QUANTUM:g}s") for name, text in mavstream.POLICIES.items()}

# The variation of the output shows only over many quanta: windows, tuples and quantum as in the simulated experiment.
STEADY_TUPLES, STEADY_WINDOW, STEADY_QUANTUM = 3000, 1000, mavstream.QUANTUM * SCALE
STEADY_POLICIES = {n: t.replace("quantum=1.0s", f"quantum={STEADY_QUANTUM:g}s") for n, t in mavstream.POLICIES.items()}

Measure = Callable[[LiveRun], tuple[float, float]]


@cache
def _at(policy: str, rate: int, seed: int) -> LiveRun:
    return _run(policy, Poisson(rate / SCALE, rows=TUPLES), seed)


def _steadily(policy: str, rate: int, seed: int) -> LiveRun:
    """A run of as many quanta as the simulated ones, because the output is counted per quantum."""
    models = live_network.slower(mavstream.models(STEADY_WINDOW), SCALE)
    both: Mapping[str, Arrivals] = dict.fromkeys("ab", Poisson(rate / SCALE, rows=STEADY_TUPLES))
    return live_network.run(mavstream.TOPOLOGY, models, both, STEADY_POLICIES[policy], seed, mavstream.BYTES)


@cache
def _in_bursts(policy: str, seed: int) -> LiveRun:
    return _run(policy, Bursts([(rows, rate / SCALE) for rows, rate in PHASES]), seed)


def _run(policy: str, arrivals: Arrivals, seed: int) -> LiveRun:
    models = live_network.slower(mavstream.models(WINDOW), SCALE)
    both = {"a": arrivals, "b": arrivals}
    return live_network.run(mavstream.TOPOLOGY, models, both, POLICIES[policy], seed, mavstream.BYTES)


def latency(seed: int) -> Outcome:
    """Fig. 6.1."""
    return _by_rate("latency", "003 Fig. 6.1", "mean tuple latency (s)", _mean_latency, mavstream.PATH, seed)


def memory(seed: int) -> Outcome:
    """Fig. 6.2."""
    return _by_rate(
        "memory", "003 Fig. 6.2", "memory of the queues, on average (bytes)", _mean_memory, mavstream.SEGMENT, seed
    )


def throughput(seed: int) -> Outcome:
    """Figs. 6.3–6.6: the standard deviation of results per interval, in the order of the thesis's table."""
    what = "standard deviation of results a quantum"
    rates = list(mavstream.DEVIATIONS)
    runs = {policy: [_steadily(policy, rate, seed) for rate in rates] for policy in POLICIES}
    found = _outcome("throughput", "003 Figs. 6.3–6.6", what, _deviation, None, seed, runs, [float(r) for r in rates])
    live = {f"{rate} tuples/s": {p: _deviation(runs[p][i])[0] for p in POLICIES} for i, rate in enumerate(rates)}
    return replace(
        found,
        claim="in the real network the output is steadier under path capacity than under simplified segment, segment "
        f"and round robin, in that order at every rate; the simulator predicts the {what} within 25%",
        measured={
            **found.measured,
            ORDER: live,
            "longest grant, in quanta": {
                p: max(float(np.diff([level.moment for level in run.levels]).max()) for run in runs[p]) / STEADY_QUANTUM
                for p in POLICIES
            },
        },
        rule=lambda paper, measured: found.rule(paper, measured) and mavstream.rising(paper, measured[ORDER]),
        setup={
            **found.setup,
            "rates before that (tuples/s a stream)": rates,
            "tuples a stream": STEADY_TUPLES,
            "window (tuples)": STEADY_WINDOW,
            "policies": STEADY_POLICIES,
        },
    )


ORDER = "deviations in the network"


def burst(seed: int) -> Outcome:
    """Fig. 6.7."""
    runs = {policy: [_in_bursts(policy, seed)] for policy in POLICIES}
    return _outcome(
        "burst",
        "003 Fig. 6.7",
        "memory of the queues, on average (bytes)",
        _mean_memory,
        mavstream.SEGMENT,
        seed,
        runs,
        [0.0],
    )


def _by_rate(name: str, source: str, what: str, measure: Measure, best: str | None, seed: int) -> Outcome:
    runs = {policy: [_at(policy, rate, seed) for rate in RATES] for policy in POLICIES}
    return _outcome(name, source, what, measure, best, seed, runs, [float(rate) for rate in RATES])


def _outcome(
    name: str,
    source: str,
    what: str,
    measure: Measure,
    best: str | None,
    seed: int,
    runs: dict[str, list[LiveRun]],
    places: Sequence[float],
) -> Outcome:
    pairs = {policy: [measure(run) for run in each] for policy, each in runs.items()}
    off = "prediction off by at most"
    first = f"{best} lowest on average"
    means = {policy: sum(m for m, _ in each) for policy, each in pairs.items()}
    expected: dict[str, object] = {off: WITHIN}
    measured: dict[str, object] = {
        off: max(abs(p / m - 1) for each in pairs.values() for m, p in each),
        f"{what}: measured, predicted": {policy: [list(pair) for pair in each] for policy, each in pairs.items()},
        "time taken over the time of the models": {
            policy: [run.slowdown for run in each] for policy, each in runs.items()
        },
    }
    if best is not None:
        expected[first] = True
        measured[first] = all(means[best] < other for policy, other in means.items() if policy != best)
    return Outcome(
        name=f"mavstream-{name}-live",
        source=source,
        claim=f"in the real network, the simulator predicts the {what} of each policy within 25%"
        + (f", which is lowest under {best}" if best else ""),
        paper=expected,
        measured=measured,
        rule=lambda paper, measured: (
            measured[off] <= paper[off] and all(measured[key] == paper[key] for key in paper if key != off)
        ),
        setup={
            "seed": seed,
            "slower than in the simulated experiment by": SCALE,
            "rates before that (tuples/s a stream)": list(RATES)
            if len(places) > 1
            else [list(phase) for phase in PHASES],
            "tuples a stream": TUPLES if len(places) > 1 else sum(rows for rows, _ in PHASES),
            "window (tuples)": WINDOW,
            "policies": POLICIES,
            **live_network.SETUP,
        },
        series=_series(places, pairs),
        axes=(
            "data rate (tuples/s on each stream, before scaling)"
            if len(places) > 1
            else ", ".join(f"{number} {policy}" for number, policy in enumerate(pairs, 1)),
            what,
        ),
    )


def _series(places: Sequence[float], pairs: Mapping[str, Sequence[tuple[float, float]]]) -> list[Series]:
    """Measured and predicted values, over the rates, or over the policies if there is only one arrival process."""
    sides = list(enumerate(("measured", "predicted")))
    if len(places) == 1:
        numbers = [float(number) for number in range(1, len(pairs) + 1)]
        return [Series(label, numbers, [each[0][side] for each in pairs.values()]) for side, label in sides]
    return [
        Series(f"{policy}, {label}", list(places), [pair[side] for pair in each])
        for policy, each in pairs.items()
        for side, label in sides
    ]


def _mean_latency(run: LiveRun) -> tuple[float, float]:
    (cls,) = run.latency
    return run.latency[cls].mean, run.predicted[cls].mean


def _mean_memory(run: LiveRun) -> tuple[float, float]:
    moments = np.array([level.moment for level in run.levels])
    size = np.array([level.queued_bytes for level in run.levels])
    # A grant takes its rows one by one: on average half of them are still queued during it.
    return float((np.diff(moments) * (size[:-1] + size[1:]) / 2).sum() / moments[-1]), run.simulated.mean_bytes


def _deviation(run: LiveRun) -> tuple[float, float]:
    """Standard deviation of the results in each interval of a quantum, measured and predicted."""
    moments = np.array([level.moment for level in run.levels])
    results = np.array([level.results for level in run.levels])
    edges = np.arange(0.0, moments[-1] + STEADY_QUANTUM, STEADY_QUANTUM)
    # Results become visible when a grant ends; within it they are spread evenly.
    live = np.diff(np.interp(edges, moments, results))
    return float(live.std()), float(run.simulated.throughput(STEADY_QUANTUM).std())

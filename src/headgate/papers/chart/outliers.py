"""001 §6, Figs. 12 and 13: the loss from knowing only average costs, by share of outliers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headgate.outcome import Figures, Outcome, Series
from headgate.scheduling import Topology
from headgate.simulation import OperatorModel, RecordedCosts, backlog, simulate

TUPLES = 300
SELECTIVITY = 0.95
SHARES = tuple(range(0, 21, 2))
SEEDS = 20
TURNS = (30, 60, 90)

Floats = NDArray[np.float64]
Grid = Mapping[str, Floats]


def latency(seed: int, seeds: int = SEEDS, shares: Sequence[int] = SHARES) -> Outcome:
    """Fig. 12: two operators with 300 queued tuples each; A is fast but has slow outliers."""
    policies = {"MSS": "mss", "component": "chart-latency", "greedy": "tuple-greedy", **_round_robins()}
    means = _sweep(policies, seed, seeds, shares, _latency_of)
    excess = _excess(means, "MSS")
    return Outcome(
        name="chart-latency",
        source="001 Fig. 12",
        claim="Knowing only averages costs at most 4% of latency; greedy by head tuples suffers most from outliers",
        paper={
            "component above MSS, most (%)": 4.0,
            "component above MSS, outliers under 6% (%)": 0.0,
            "greedy above MSS, most (%)": 50.0,
            "greedy rises most with outliers": True,
            "round robin is above component everywhere": True,
        },
        measured={
            "component above MSS, most (%)": float(excess["component"].max()),
            "component above MSS, outliers under 6% (%)": _under(excess["component"], shares, 6),
            "greedy above MSS, most (%)": float(excess["greedy"].max()),
            "greedy rises most with outliers": _rises_most(means, "greedy"),
            "round robin is above component everywhere": all(
                bool((means[name] > means["component"]).all()) for name in _round_robins()
            ),
        },
        rule=_latency_rule,
        setup={
            **_setup(policies, seed, seeds, shares),
            "cost of A (ms)": "N(1, 0.2²); outliers N(6, 1²)",
            "cost of B (ms)": "N(5, 1²)",
        },
        series=[Series(name, list(shares), [float(v) for v in values]) for name, values in means.items()],
        axes=("outliers among the tuples of A (%)", f"average latency of an output tuple (ms), mean of {seeds} seeds"),
    )


def memory(seed: int, seeds: int = SEEDS, shares: Sequence[int] = SHARES) -> Outcome:
    """Fig. 13: a path of two operators; the first halves the size of its 300 queued tuples and has slow outliers."""
    policies = {
        "tuple-based": "mss:of=memory",
        # Tuple by tuple, as the others: if it took whole queues, its ranks would not matter here.
        "Chain": "chain:rows=1",
        "greedy": "tuple-greedy:of=memory",
        **_round_robins(),
    }
    means = _sweep(policies, seed, seeds, shares, _memory_of)
    excess = _excess(means, "tuple-based")
    return Outcome(
        name="chart-memory",
        source="001 Fig. 13",
        claim="Chain, which knows only averages, stays within 4% of the tuple-based algorithm; greedy suffers most "
        "from outliers",
        paper={
            "Chain above tuple-based, most (%)": 4.0,
            "greedy is above Chain where there are outliers": True,
            "greedy rises most with outliers": True,
        },
        measured={
            "Chain above tuple-based, most (%)": float(np.abs(excess["Chain"]).max()),
            "greedy is above Chain where there are outliers": all(
                bool(g > c) for g, c, share in zip(means["greedy"], means["Chain"], shares, strict=True) if share
            ),
            "greedy rises most with outliers": _rises_most(means, "greedy"),
        },
        rule=_memory_rule,
        setup={
            **_setup(policies, seed, seeds, shares),
            "cost of O1 (ms)": "N(1, 0.2²); outliers N(10, 1²)",
            "cost of O2 (ms)": "N(5, 1²)",
            "size of a tuple": "1 before O1, 0.5 after; sampled every ms, summed until the end",
        },
        series=[Series(name, list(shares), [float(v) for v in values]) for name, values in means.items()],
        axes=("outliers among the tuples of O1 (%)", f"total buffer size over time (size·ms), mean of {seeds} seeds"),
    )


def _latency_rule(paper: Figures, measured: Figures) -> bool:
    component, greedy = "component above MSS, most (%)", "greedy above MSS, most (%)"
    return bool(
        measured[component] <= paper[component]
        and measured["component above MSS, outliers under 6% (%)"] <= 1.0
        and paper[greedy] / 2 <= measured[greedy] <= paper[greedy] * 2
        and measured["greedy rises most with outliers"]
        and measured["round robin is above component everywhere"]
    )


def _memory_rule(paper: Figures, measured: Figures) -> bool:
    most = "Chain above tuple-based, most (%)"
    return bool(measured[most] <= paper[most] and all(measured[key] for key in paper if key != most))


def _round_robins() -> dict[str, str]:
    """Round robin with quanta of 10, 20 and 30% of the tuples."""
    return {f"round robin {rows}": f"rr:rows={rows},quantum=inf" for rows in TURNS}


def _setup(policies: Mapping[str, str], seed: int, seeds: int, shares: Sequence[int]) -> dict[str, object]:
    return {
        "seed": seed,
        "seeds": list(range(seed, seed + seeds)),
        "tuples waiting": TUPLES,
        "selectivity": SELECTIVITY,
        "tuples": "fractional (each tuple yields 0.95)",
        "outliers (%)": list(shares),
        "outliers are": "exactly that share of the tuples, at random positions",
        "policies": dict(policies),
    }


def _sweep(
    policies: Mapping[str, str],
    seed: int,
    seeds: int,
    shares: Sequence[int],
    measure: Callable[[str, int, int], float],
) -> Grid:
    """The measure of each policy by share of outliers, averaged over the seeds."""
    return {
        label: np.array([np.mean([measure(policy, share, seed + n) for n in range(seeds)]) for share in shares])
        for label, policy in policies.items()
    }


def _latency_of(policy: str, share: int, seed: int) -> float:
    random = np.random.default_rng(seed)
    slow, fast = normal(random, 5.0, 1.0), with_outliers(random, share, 6.0)
    topology = Topology.of({"a": ["A"], "b": ["B"]})
    models = {
        "a": OperatorModel(RecordedCosts(fast), SELECTIVITY),
        "b": OperatorModel(RecordedCosts(slow), SELECTIVITY),
    }
    arrivals = {"A": backlog(TUPLES), "B": backlog(TUPLES)}
    return simulate(topology, models, arrivals, policy, tuples="fractional").latency().mean


def _memory_of(policy: str, share: int, seed: int) -> float:
    random = np.random.default_rng(seed)
    second, first = normal(random, 5.0, 1.0), with_outliers(random, share, 10.0)
    topology = Topology.of({"o1": ["input"], "o2": ["o1"]})
    models = {
        "o1": OperatorModel(RecordedCosts(first), SELECTIVITY, bytes_out=0.5),
        "o2": OperatorModel(RecordedCosts(second), SELECTIVITY, bytes_out=0.5),
    }
    arrivals = {"input": backlog(TUPLES)}
    result = simulate(topology, models, arrivals, policy, tuples="fractional", bytes=1.0, resolution=1.0)
    return float(result.queue_series()[2].sum())


def normal(random: np.random.Generator, mean: float, deviation: float) -> list[float]:
    """Normally distributed costs of all tuples, at least a hundredth of the mean (none is zero or negative)."""
    return [float(c) for c in np.maximum(random.normal(mean, deviation, TUPLES), mean / 100)]


def with_outliers(random: np.random.Generator, share: int, mean: float) -> list[float]:
    """Costs N(1, 0.2²), but N(mean, 1²) for exactly `share` percent of the tuples, at random positions.

    With the same seed, the outliers of a smaller share are a subset of those of a larger one.
    """
    costs, outliers, places = normal(random, 1.0, 0.2), normal(random, mean, 1.0), random.permutation(TUPLES)
    for place in places[: round(TUPLES * share / 100)]:
        costs[place] = outliers[place]
    return costs


def _excess(means: Grid, reference: str) -> Grid:
    """How far each is above the reference, in percent."""
    return {name: (values / means[reference] - 1) * 100 for name, values in means.items()}


def _under(values: Floats, shares: Sequence[int], limit: int) -> float:
    return max((float(v) for v, share in zip(values, shares, strict=True) if share < limit), default=0.0)


def _rises_most(means: Grid, name: str) -> bool:
    """Whether the measure of this policy grows most from no outliers to the largest share."""
    rise = {label: float(values[-1] - values[0]) for label, values in means.items()}
    return all(rise[name] > other for label, other in rise.items() if label != name)

"""001 §5: two queues with three tuples in all, where considering only the heads of the queues is not optimal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.outcome import Outcome, Series
from headgate.scheduling import Topology
from headgate.simulation import OperatorModel, RecordedCosts, SimulationResult, backlog, simulate

QUEUES = {"A": (10.0, 1.0), "B": (9.0,)}
Floats = NDArray[np.float64]

POLICIES = {"greedy": "tuple-greedy", "MSS": "mss"}


def example(seed: int) -> Outcome:
    """Total output latency under both algorithms. Deterministic: the seed has no effect."""
    results = {label: _run(policy) for label, policy in POLICIES.items()}
    return Outcome(
        name="chart-example",
        source="001 §5",
        claim="Queues (10, 1) and (9): total latency 48 under greedy, 41 under MSS",
        paper={"greedy": 48.0, "MSS": 41.0},
        measured={label: result.latency().total for label, result in results.items()},
        rule=lambda paper, measured: all(abs(measured[key] - paper[key]) < 1e-9 for key in paper),
        setup={"seed": seed, "queues": QUEUES, "policies": POLICIES, "selectivity": 1.0},
        series=[_completion_chart(label, result) for label, result in results.items()],
        axes=("time (units)", "tuples not yet delivered (output completion chart)"),
    )


def _run(policy: str) -> SimulationResult:
    topology = Topology.of({name.lower(): [name] for name in QUEUES})
    models = {name.lower(): OperatorModel(RecordedCosts(costs)) for name, costs in QUEUES.items()}
    return simulate(topology, models, {name: backlog(len(costs)) for name, costs in QUEUES.items()}, policy)


def _completion_chart(label: str, result: SimulationResult) -> Series:
    """The output completion chart: steps from all tuples down to none. The area below it is the total latency."""
    times, delivered = result.results()
    left = np.concatenate([[delivered[-1]], delivered[-1] - delivered])
    return Series(f"{label} (area {result.latency().total:g})", *stairs(np.concatenate([[0.0], times]), left))


def stairs(times: Floats, levels: Floats) -> tuple[list[float], list[float]]:
    """The corners of a curve that keeps each level until the next time."""
    x, y = [float(times[0])], [float(levels[0])]
    for moment, level in zip(times[1:], levels[1:], strict=True):
        x += [float(moment), float(moment)]
        y += [y[-1], float(level)]
    return x, y

"""001 §4, Figs. 5–9: where chart partitioning cuts forks, for latency and for memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from headgate.outcome import Outcome, Series, same
from headgate.papers.chart.example import stairs
from headgate.scheduling import Cut, Policy, Selector, Topology, Units, View, policy
from headgate.scheduling.ranked import RankSelector
from headgate.scheduling.yields import memory_slope, rank_by, result_slope
from headgate.simulation import OperatorModel, Simulation, SimulationResult, backlog

TUPLES = 100


@dataclass(frozen=True)
class Fork:
    """A query graph with forks, and the partitions that the paper derives, steepest first."""

    figure: str
    policy: str
    inputs: Mapping[str, str]
    costs: Mapping[str, float]
    expected: str
    why: str
    sizes: Mapping[str, float] | None = None
    # Another partitioning, which must do worse.
    other: str = ""

    @property
    def topology(self) -> Topology:
        return Topology.of({operator: [source] for operator, source in self.inputs.items()})

    @property
    def models(self) -> dict[str, OperatorModel]:
        sizes = self.sizes or {}
        return {name: OperatorModel(cost, bytes_out=sizes.get(name)) for name, cost in self.costs.items()}


SIMPLE = {"O1": "input", "O2": "O1", "O3": "O1"}
NESTED = {
    "E": "input",
    "D": "E",
    "C": "E",
    "A": "C",
    "B": "C",
    "G": "E",
    "H": "G",
    "P": "H",
    "O": "G",
}

FORKS = (
    Fork("5(a)", "chart-latency", SIMPLE, {"O1": 2, "O2": 1, "O3": 2}, "O1+O2+O3", "τ3 < τ1 + τ2", None, "O1+O2 | O3"),
    Fork("5(b)", "chart-latency", SIMPLE, {"O1": 2, "O2": 1, "O3": 6}, "O1+O2 | O3", "τ3 > τ1 + τ2", None, "O1+O2+O3"),
    Fork(
        "7(a)",
        "chart-latency",
        {"C": "input", "A": "C", "B": "C"},
        {"C": 1, "A": 1, "B": 4},
        "A+C | B",
        "A steeper than B and a short C: B is split off",
    ),
    Fork(
        "7(b)",
        "chart-latency",
        {"C": "input", "A": "C", "B": "C"},
        {"C": 3, "A": 1, "B": 1},
        "A+B+C",
        "a very long C: one partition",
    ),
    Fork(
        "8",
        "chart-latency",
        NESTED,
        {"E": 1, "D": 1, "C": 3, "A": 1, "B": 1, "G": 0.5, "H": 0.5, "P": 0.5, "O": 4},
        "D+E+G+H+P | A+B+C | O",
        "C+A+B is one partition, G's are G+H+P and O; by slope D, G+H+P, C+A+B, O",
        None,
        "A+B+C+D+E+G+H+O+P",
    ),
    Fork(
        "9",
        "chart-memory",
        {"O1": "input", "O2": "O1", "O3": "input", "O4": "O3"},
        {"O1": 1, "O2": 20, "O3": 1, "O4": 0.5},
        "O1+O3+O4 | O2",
        "both first operators in one fork segment, O4 steeper than O2",
        {"O1": 0.8, "O3": 0.5},
        "O1+O2+O3+O4",
    ),
)


def forks(seed: int) -> Outcome:
    """The partitions of each figure, and the area they save. Deterministic: the seed has no effect."""
    expected: dict[str, object] = {f"partitions, Fig. {fork.figure}": fork.expected for fork in FORKS}
    derived: dict[str, object] = {f"partitions, Fig. {fork.figure}": partitions(fork) for fork in FORKS}
    series: list[Series] = []
    for fork in FORKS:
        if not fork.other:
            continue
        chosen, other = _run(fork, policy(fork.policy)), _run(fork, FixedPartitions(fork.other, fork.sizes is not None))
        key = f"smaller area than {fork.other}, Fig. {fork.figure}"
        expected[key], derived[key] = True, _area(fork, chosen) < _area(fork, other)
        panel = f"Fig. {fork.figure}: {'memory (input tuples)' if fork.sizes else 'tuples not delivered'}"
        for label, result in (("chart partitioning", chosen), (fork.other, other)):
            x, y = _curve(fork, result)
            series.append(Series(f"{label}, area {_area(fork, result):,.0f}", x, y, panel))
    return Outcome(
        name="chart-forks",
        source="001 §4, Figs. 5–9",
        claim="Chart partitioning cuts simple, nested and memory forks as the paper derives",
        paper=expected,
        measured=derived,
        rule=same,
        setup={
            "seed": seed,
            "tuples waiting": TUPLES,
            "selectivity": 1.0,
            "inputs": {fork.figure: dict(fork.inputs) for fork in FORKS},
            "costs (time units)": {fork.figure: dict(fork.costs) for fork in FORKS},
            "sizes (the input's is 1)": {fork.figure: dict(fork.sizes) for fork in FORKS if fork.sizes},
            "why": {fork.figure: fork.why for fork in FORKS},
        },
        series=series,
        axes=("time (units)", ""),
    )


def partitions(fork: Fork) -> str:
    """The partitions of a fork under its policy, steepest first, written `O1+O2 | O3`."""
    simulation = _simulation(fork, policy(fork.policy))
    view, units = simulation.view, simulation.scheduler.units
    rank = rank_by(memory_slope if fork.sizes else result_slope)(view, units)
    steepest = sorted(units.units, key=lambda unit: -rank[unit.id])
    return " | ".join("+".join(sorted(fork.topology.names(unit.operators))) for unit in steepest)


@dataclass
class FixedPartitions(Policy):
    """A fixed partitioning of the graph, written `O1+O2 | O3`, with units ranked by slope."""

    partitions: str
    memory: bool
    name: ClassVar[str] = "fixed partitions"
    interval: float = inf

    def cut(self, view: View) -> Cut:
        groups = [[view.topology.id(name) for name in part.strip().split("+")] for part in self.partitions.split("|")]
        return Cut.between(view.topology, groups)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return RankSelector(view, units, members, rank_by(memory_slope if self.memory else result_slope))


def _simulation(fork: Fork, chosen: Policy) -> Simulation:
    return Simulation(fork.topology, fork.models, {"input": backlog(TUPLES)}, chosen, bytes=1.0)


def _run(fork: Fork, chosen: Policy) -> SimulationResult:
    return _simulation(fork, chosen).run()


def _area(fork: Fork, result: SimulationResult) -> float:
    """The area below the chart: total latency, or memory over time."""
    return result.byte_seconds if fork.sizes else result.latency().total


def _curve(fork: Fork, result: SimulationResult) -> tuple[list[float], list[float]]:
    if fork.sizes:
        times, _, sizes = result.queue_series()
        return [float(t) for t in times], [float(size) for size in sizes]
    times, delivered = result.results()
    left = np.concatenate([[delivered[-1]], delivered[-1] - delivered])
    return stairs(np.concatenate([[0.0], times]), left)

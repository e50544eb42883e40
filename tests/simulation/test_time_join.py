"""A join over time windows gives the same results in any order of processing; the readers of a fork take turns."""

from __future__ import annotations

import pytest

from headgate.scheduling import Topology
from headgate.simulation import JoinModel, OperatorModel, Poisson, Simulation, backlog, simulate


@pytest.mark.parametrize("policy", ["fifo", "mtiq", "chain", "rr", "hr"])
def test_results_do_not_depend_on_the_policy(policy: str) -> None:
    topology = Topology.of({"left": ["a"], "right": ["b"], "join": ["left", "right"]})
    models = {
        "left": OperatorModel(0.004, 1.0),
        "right": OperatorModel(0.0001, 1.0),
        "join": JoinModel(0.001, 0.5, window=0.2),
    }
    arrivals = {"a": Poisson(100, rows=500), "b": Poisson(100, rows=500)}
    found, expected = (
        simulate(topology, models, arrivals, chosen, seed=3, tuples="fractional").latency().count
        for chosen in (policy, "fifo:rows=1")
    )
    assert found == pytest.approx(expected, rel=1e-9)
    # Each row matches rows up to 0.2 s before or after it: 500 × 0.5 × 2 × 0.2 × 100, fewer at both ends.
    assert expected == pytest.approx(10_000, rel=0.1)


def test_the_readers_of_a_fork_take_turns() -> None:
    topology = Topology.of({"one": ["s"], "two": ["s"]})
    seen: list[int] = []
    Simulation(
        topology,
        {"one": OperatorModel(1.0), "two": OperatorModel(1.0)},
        {"s": backlog(3)},
        "chart-memory",
        observer=lambda event, edge, row, time: seen.append(edge) if event == "out" else None,
    ).run()
    assert seen == [0, 1, 0, 1, 0, 1]

"""Simulations with measured statistics: these converge to the true values, and policies act on them."""

from __future__ import annotations

import pytest

from headgate.scheduling import Topology
from headgate.simulation import Constant, NormalCost, OperatorModel, Poisson, RecordedCosts, Simulation

TOPOLOGY = Topology.of({"a": ["s"], "b": ["a"]})


def test_measured_statistics_converge_to_the_means_of_the_models() -> None:
    models = {"a": OperatorModel(NormalCost(0.002, 0.0004), 0.25, bytes_out=40), "b": OperatorModel(0.004)}
    simulation = Simulation(
        TOPOLOGY, models, {"s": Poisson(100, until=300)}, "chain:rows=1", statistics="measured", tuples="random", seed=2
    )
    simulation.run()
    found = simulation.view.statistics
    assert found.cost == pytest.approx([0.002, 0.004], rel=0.05)
    assert found.selectivity == pytest.approx([0.25, 1.0], rel=0.2)
    assert found.rate == pytest.approx([100, 25], rel=0.2)
    assert found.bytes_in == pytest.approx([100, 40])
    assert found.bytes_out[0] == pytest.approx(40)


def test_measured_statistics_follow_a_change() -> None:
    """Recorded costs are high at first, then low; known statistics stay at the mean."""
    costs = RecordedCosts([0.008] * 1000 + [0.001] * 4000)
    models = {"a": OperatorModel(costs, 1.0), "b": OperatorModel(0.001)}
    run = {
        kind: Simulation(
            TOPOLOGY, models, {"s": Constant(100, rows=5000)}, "hr", statistics=kind, half_life=2.0, until=50.0
        )
        for kind in ("known", "measured")
    }
    for simulation in run.values():
        simulation.run()
    assert run["measured"].view.statistics.cost[0] == pytest.approx(0.001, rel=0.02)
    assert run["known"].view.statistics.cost[0] == pytest.approx((8 + 4) / 5 / 1000)


def test_a_policy_cuts_again_by_measured_statistics() -> None:
    """Chain starts from the known means; once `b` proves cheap for the memory it releases, both form one segment."""
    # `a` releases 50 bytes in 4 ms; `b` 100 in 21 ms on average (less steep), from its 20th row on in 1 ms (steeper).
    costs = RecordedCosts([0.2] * 20 + [0.001] * 180)
    models = {"a": OperatorModel(0.004, 0.5), "b": OperatorModel(costs)}
    simulation = Simulation(
        TOPOLOGY, models, {"s": Constant(20, rows=200)}, "chain", statistics="measured", half_life=0.5
    )
    assert len(simulation.scheduler.units) == 2
    result = simulation.run()
    assert len(simulation.scheduler.units) == 1
    assert len(result.changes) > 1
    assert not result.unprocessed

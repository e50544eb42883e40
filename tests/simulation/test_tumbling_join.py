"""A modelled join over tumbling windows: every pair of a window is joined exactly once."""

from __future__ import annotations

import pytest

from headgate.scheduling import Topology
from headgate.simulation import Constant, JoinModel, SimulationResult, backlog, simulate

TOPOLOGY = Topology.of({"join": ["left", "right"]}, kinds={"join": "join"})


def joined(join: JoinModel, policy: str, left: int = 25, right: int = 25) -> SimulationResult:
    return simulate(TOPOLOGY, {"join": join}, {"left": backlog(left), "right": backlog(right)}, policy)


@pytest.mark.parametrize("policy", ["fifo", "rr", "path", "mtiq:rows=1"])
def test_results_do_not_depend_on_the_order_of_the_sides(policy: str) -> None:
    # Two full windows of 10 × 10 pairs and one of 5 × 5.
    assert joined(JoinModel(0.1, 1.0, rows=10, tumbling=True), policy).latency().count == 225


def test_a_time_window_holds_the_rows_that_arrived_in_it() -> None:
    join = JoinModel(0.001, 1.0, window=1.0, tumbling=True)
    result = simulate(TOPOLOGY, {"join": join}, {"left": Constant(4, rows=8), "right": Constant(2, rows=4)}, "fifo")
    # Left at 0.25 … 2.0, right at 0.5 … 2.0: 3 × 1, 4 × 2 and 1 × 1 pairs in the windows from 0, 1 and 2.
    assert result.latency().count == 12


def test_a_nested_loops_join_is_charged_for_the_rows_it_probes() -> None:
    result = joined(JoinModel(1.0, 0.0, rows=10, probe=0.5, tumbling=True), "fifo", left=10, right=10)
    assert result.busy == pytest.approx(20 * 1.0 + 100 * 0.5)


def test_the_expected_window_is_half_full() -> None:
    expected = JoinModel(1.0, 0.1, rows=100, probe=0.01, tumbling=True).expected([5.0, 5.0])
    assert (expected.cost, expected.selectivity) == (pytest.approx(1.5), pytest.approx(5.0))

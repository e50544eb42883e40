"""The bench of the cost of measuring compares with a network that does the same work and measures nothing."""

from __future__ import annotations

import pytest

from headgate.bench.statistics import POLICIES, _events, _mixed, _round, compiled, recompiled
from headgate.runtime import Network
from headgate.runtime.dataflow import Flow
from tests.runtime.plans import table


@pytest.mark.parametrize("policy", POLICIES.values())
def test_the_other_side_gives_the_same_results_and_counts_nothing(policy: str) -> None:
    sides = [recompiled(Network(_mixed(), policy), measuring) for measuring in (True, False)]
    found = []
    for network in sides:
        for turn in range(3):
            for stream, batch in _events(turn):
                network.push(stream, batch.slice(0, 500))
            network.run()
        network.finish()
        network.run()
        found.append({name: table([result.rows for result in network.take(name)]) for name in network.queries})
    assert found[0] == found[1]
    assert any(found[0].values())
    measured, unmeasured = (network.metrics()["operators"] for network in sides)
    assert all(operator["rows_in"] and operator["seconds"] for operator in measured)
    assert not any(operator["rows_in"] or operator["rows_out"] or operator["seconds"] for operator in unmeasured)


def test_a_round_is_timed() -> None:
    assert _round(Network(_mixed(), "chain"), _events(0)) > 0


def test_what_is_left_out_is_all_that_measures() -> None:
    flow = compiled(Flow, False)(lambda: pytest.fail("the clock was read"))
    network = Network(_mixed(), "chain")
    network._grants.flow = flow
    for stream, batch in _events(0):
        network.push(stream, batch)
    network.run()
    assert flow.seconds == 0

"""Rows that arrive at one moment are all waiting before anything is granted."""

from __future__ import annotations

import pytest

from headgate.scheduling import Topology
from headgate.simulation import OperatorModel, RecordedCosts, backlog, simulate


@pytest.mark.parametrize(("policy", "total"), [("tuple-greedy", 48.0), ("mss", 41.0)])
def test_the_choice_is_among_all_rows_that_wait_at_the_start(policy: str, total: float) -> None:
    """001 §5: queues (10, 1) and (9); whichever stream is declared first."""
    for streams in ({"a": ["A"], "b": ["B"]}, {"b": ["B"], "a": ["A"]}):
        models = {"a": OperatorModel(RecordedCosts([10, 1])), "b": OperatorModel(RecordedCosts([9]))}
        result = simulate(Topology.of(streams), models, {"A": backlog(2), "B": backlog(1)}, policy)
        assert result.latency().total == total

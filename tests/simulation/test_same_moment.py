"""Rows that arrive at the same time are all queued before the next grant."""

from __future__ import annotations

import pytest

from headgate.scheduling import Topology
from headgate.simulation import OperatorModel, RecordedCosts, backlog, simulate


@pytest.mark.parametrize(("policy", "total"), [("tuple-greedy", 48.0), ("mss", 41.0)])
def test_the_first_grant_considers_all_rows_of_time_zero(policy: str, total: float) -> None:
    """001 §5: queues (10, 1) and (9), in either order of declaration."""
    for streams in ({"a": ["A"], "b": ["B"]}, {"b": ["B"], "a": ["A"]}):
        models = {"a": OperatorModel(RecordedCosts([10, 1])), "b": OperatorModel(RecordedCosts([9]))}
        result = simulate(Topology.of(streams), models, {"A": backlog(2), "B": backlog(1)}, policy)
        assert result.latency().total == total

"""The share of a query's rows that was shed lately, from counts that begin again when a network is restored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headgate.spark.driver_metrics import DriverMetrics
from tests.spark.epochs_run import Run

SCRIPT = "CREATE STREAM s (ts TIMESTAMP, k INT) USING rate; CREATE QUERY q AS SELECT k FROM s;"
SHARE = 0.25


@pytest.mark.parametrize("restored", [[(0, 0)], [(0, 0), (8, 2)]])
def test_the_share_is_right_after_a_restore(tmp_path: Path, restored: list[tuple[int, int]]) -> None:
    run = Run(tmp_path, SCRIPT)
    run.bring("s", (1.0, 1))
    (epoch,) = [each for each in run.done if each.metrics is not None]
    assert epoch.metrics is not None
    metrics = DriverMetrics()
    assert metrics.shed("q") == 0
    for offered, shed in [(16, 4), (32, 8), *restored]:
        figures = {**epoch.metrics["queries"]["q"], "offered": offered, "shed": shed}
        metrics.committed(replace(epoch, metrics={**epoch.metrics, "queries": {"q": figures}}))
        assert metrics.shed("q") == (SHARE if offered else 0)

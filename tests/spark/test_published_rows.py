"""The rows of results that sinks have: counted when an epoch is published, not when it is committed."""

from __future__ import annotations

from pathlib import Path

from headgate.spark.driver_metrics import DriverMetrics
from tests.spark.epochs_run import Run

SCRIPT = "CREATE STREAM s (ts TIMESTAMP, k INT) USING rate; CREATE QUERY q AS SELECT k FROM s;"


def test_rows_count_once_the_sinks_have_them(tmp_path: Path) -> None:
    run = Run(tmp_path, SCRIPT)
    run.bring("s", (1.0, 1), (2.0, 2))
    run.bring("s", (3.0, 3))
    metrics = DriverMetrics()

    def published() -> int:
        report = metrics.report(dict(run.catalog.queries), run.catalog.classes, {"q": "running"})
        found: int = report["queries"]["q"]["published"]
        return found

    first, second = [epoch for epoch in run.done if epoch.rows.get("q")]
    metrics.committed(first)
    metrics.committed(second)
    assert published() == 0
    metrics.published(first.number)
    assert published() == 2
    metrics.published(second.number)
    assert published() == 3

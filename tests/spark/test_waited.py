"""How long rows may have waited before an epoch, by query: results may come with the epoch of another lane."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from headgate.spark.driver_metrics import DriverMetrics
from headgate.spark.lanes import _columns
from headgate.spark.packing import Packing
from headgate.spark.plan import Plan
from headgate.spark.required_columns import required_columns
from tests.spark.epochs_run import Run
from tests.spark.inline import lane_batch, packed

SCRIPT = """
CREATE STREAM a (ts TIMESTAMP, k INT) USING rate;
CREATE STREAM b (ts TIMESTAMP, k INT) USING rate;
CREATE QUERY fast AS SELECT k FROM a;
CREATE QUERY slow AS SELECT k FROM b;
CREATE QUERY both AS SELECT k FROM a UNION ALL SELECT k FROM b;
"""


def test_a_query_waits_for_the_lanes_of_its_own_streams(tmp_path: Path) -> None:
    run = Run(tmp_path, SCRIPT)
    queries = tuple(dict(run.catalog.queries).values())
    wanted = required_columns(queries)
    packings = {f"{name}@1": Packing({name: _columns(run.streams[name], wanted[name])}) for name in "ab"}
    run.epochs.plan = Plan(queries, "cqc", packings=packings)
    rows = pa.table({"ts": pa.array([1], pa.timestamp("us", "UTC")), "k": pa.array([1], pa.int32())})
    for lane, batch, waited in (("a", 0, 0.5), ("b", 0, 7.0), ("a", 1, 0.6)):
        brought = lane_batch(lane, f"{lane}@1", batch, [packed(packings[f"{lane}@1"], lane, rows)])
        run.epochs.run_batch(replace(brought, waited=waited))
    assert [dict(epoch.waited) for epoch in run.done if epoch.waited] == [
        {"fast": 0.5, "both": 0.5},
        {"slow": 7.0, "both": 7.0},
        {"fast": 0.6, "both": 7.0},
    ]


def test_latencies_count_what_the_rows_of_the_query_may_have_waited(tmp_path: Path) -> None:
    """Results of a query with short pauses come with the epoch of a lane that pauses for seconds."""
    run = Run(tmp_path, SCRIPT)
    run.bring("a", (1.0, 1))
    run.bring("b", (1.0, 1))
    metrics = DriverMetrics()
    for epoch in run.done:
        metrics.committed(replace(epoch, waited={"fast": 0.5, "slow": 7.0}))
        metrics.published(epoch.number)
    fast, slow = (metrics.latencies()[query].worst for query in ("fast", "slow"))
    assert slow - fast > 6

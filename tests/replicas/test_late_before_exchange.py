"""A row that is late for some of its windows, where another replica assembles the windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from headgate.graph.operators import Partial
from headgate.operators.batch import Arrival, Batch
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.spark.exchange import divided
from headgate.sql import Catalog

START = datetime(2026, 1, 1, tzinfo=UTC)
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, v INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS) USING json OPTIONS (path 'in');
CREATE QUERY q AS SELECT window(ts, '10 seconds', '5 seconds') AS w, count(*) AS n FROM s
GROUP BY window(ts, '10 seconds', '5 seconds');
"""


def test_windows_that_have_ended_here_are_missed_elsewhere_too() -> None:
    catalog = Catalog()
    catalog.execute(SCRIPT)
    [node] = [
        found
        for query in divided(catalog.queries["q"]).parts
        for found in query.plan.walk()
        if isinstance(found, Partial)
    ]
    partial = live(node, Settings())
    rows = pa.RecordBatch.from_pydict(
        {"ts": [START + timedelta(seconds=9)], "v": [1]}, schema=catalog.streams["s"].schema.arrow()
    )

    def code(watermark: int) -> int:
        partial.advance(0, watermark)
        [made] = partial.process(0, Batch(rows, Arrival.at(0.0, 1), watermark))
        found: int = made.rows.column(0)[0].as_py()
        return found

    seconds = int(START.timestamp())
    in_time, late = code((seconds + 9) * 1_000_000), code((seconds + 11) * 1_000_000)
    # The window from 0 to 10 seconds has ended, the one from 5 to 15 has not.
    assert late == in_time + 1

"""Rows that cross an exchange are shed where they enter, not again after it (aggregates: `test_shedding.py`)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from headgate.connectors.registry import connectors
from headgate.sql import Catalog
from tests.replicas.harness import Replicas, apart, in_fragments

SCRIPT = """
CREATE STREAM s (a INT, b INT) USING json OPTIONS (path 'unused');
CREATE QUERY q WITH (accuracy = '50%') AS {text};
"""
FIRST = (
    "SELECT a, n FROM (SELECT a, n, row_number() OVER (ORDER BY n DESC, a) AS place FROM"
    " (SELECT a, count(*) AS n FROM s GROUP BY a)) WHERE place <= 100"
)


def test_a_share_is_shed_once() -> None:
    catalog = Catalog(None, "UTC", connectors())
    catalog.execute(SCRIPT.format(text=FIRST))
    parts = [replace(part, shed=0.25) for part in in_fragments([catalog.queries["q"]])]
    assert len(parts) == 2
    running = Replicas(parts, apart(parts, 2))
    for start in range(0, 400, 40):
        a = pa.array([n % 50 for n in range(start, start + 40)], pa.int32())
        running.epoch([("s", pa.record_batch({"a": a, "b": a}))])
    running.finish()
    assert sum(row["n"] for row in running.table("q").to_pylist()) == pytest.approx(300, abs=2)
    running.close()

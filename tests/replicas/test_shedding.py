"""Load shedding on several replicas: rows are shed once, where they enter, also of queries that are divided."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from headgate.connectors.registry import connectors
from headgate.graph.queries import Query
from headgate.spark.placement import Placement
from headgate.spark.placing import place
from headgate.sql import Catalog
from tests.replicas.harness import Replicas, in_fragments

STREAM = """
CREATE STREAM s (ts TIMESTAMP, k INT, v INT, WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS)
USING json OPTIONS (path 'unused');
"""
ROWS, BATCHES = 101, 10


def rows(batch: int, count: int = ROWS) -> pa.RecordBatch:
    """The rows of one second."""
    numbers = range(batch * ROWS, batch * ROWS + count)
    return pa.record_batch(
        {
            "ts": pa.array([batch * 1_000_000 + n for n in range(count)], pa.timestamp("us", "UTC")),
            "k": pa.array([n % 5 for n in numbers], pa.int32()),
            "v": pa.array([3] * count, pa.int32()),
        }
    )


def run(select: str, spec: str, share: float) -> tuple[Replicas, Query]:
    """A query of which a share is shed, on two replicas, after all rows and the end of the stream."""
    catalog = Catalog(None, "UTC", connectors())
    catalog.execute(f"{STREAM} CREATE QUERY q WITH ({spec}) AS {select}")
    query = replace(catalog.queries["q"], shed=share)
    parts = in_fragments([query])
    replicas = Replicas(parts, place(parts, 2), declared=[query])
    for batch in range(BATCHES):
        replicas.epoch([("s", rows(batch))])
    replicas.finish()
    return replicas, query


def shed(replicas: Replicas) -> tuple[int, int]:
    """The rows offered and shed, on all replicas."""
    found = [figures for network in replicas.networks for figures in network.metrics()["queries"].values()]
    return sum(each["offered"] for each in found), sum(each["shed"] for each in found)


WINDOW = "window(ts, '5 seconds')"


@pytest.mark.parametrize(
    "select",
    [
        "SELECT count(*) AS n, sum(v) AS t FROM s",
        f"SELECT count(*) AS n, sum(v) AS t FROM s GROUP BY {WINDOW}",
        f"SELECT k, count(*) AS n, sum(v) AS t FROM s GROUP BY {WINDOW}, k",
    ],
    ids=["divided", "divided window", "by key"],
)
@pytest.mark.parametrize("scaled", [True, False])
def test_rows_are_shed_once_and_scaled_once(select: str, scaled: bool) -> None:
    replicas, _ = run(select, f"accuracy = '50%', scaled = {scaled}", 0.5)
    found = replicas.table("q").to_pylist()
    if "window" not in select:
        found = found[-1:]
    offered, dropped = shed(replicas)
    assert offered == ROWS * BATCHES
    # Each replica carries the fraction of a row that is left over.
    assert offered * 0.5 - 2 < dropped <= offered * 0.5
    counted = offered if scaled else offered - dropped
    assert (sum(row["n"] for row in found), sum(row["t"] for row in found)) == (counted, 3 * counted)


def test_the_first_rows_of_each_window_are_not_shed_again_where_candidates_meet() -> None:
    ranked = f"SELECT k, v, row_number() OVER (PARTITION BY {WINDOW} ORDER BY ts) AS r FROM s"
    replicas, _ = run(f"SELECT k, v, r FROM ({ranked}) WHERE r <= 20", "accuracy = '50%'", 0.5)
    assert any("/" in name for name in replicas.queries), "it is divided"
    assert replicas.table("q").num_rows == 20 * BATCHES // 5
    offered, dropped = shed(replicas)
    assert offered == ROWS * BATCHES
    assert dropped <= offered * 0.5


def test_an_aggregate_below_another_operator_is_not_scaled_on_several_replicas_either() -> None:
    counted = f"SELECT {WINDOW} AS w, count(*) AS n FROM s GROUP BY {WINDOW}"
    replicas, _ = run(
        f"SELECT n FROM (SELECT n, row_number() OVER (PARTITION BY w ORDER BY n) AS r FROM ({counted})) WHERE r = 1",
        "accuracy = '50%', scaled = true",
        0.5,
    )
    offered, dropped = shed(replicas)
    assert sum(row["n"] for row in replicas.table("q").to_pylist()) == offered - dropped


def test_rows_of_the_lowest_utility_go_first_on_every_route() -> None:
    replicas, _ = run("SELECT k FROM s WHERE v > 0", "accuracy = '50%', utility = 'k'", 0.4)
    # Of five keys, two fifths of the rows are those of the keys 0 and 1; batches are divided unevenly.
    lost = shed(replicas)[1]
    kept = [row["k"] for row in replicas.table("q").to_pylist()]
    assert len(kept) == ROWS * BATCHES - lost
    assert sum(k >= 3 for k in kept) == sum(n % 5 >= 3 for n in range(ROWS * BATCHES))


@pytest.mark.parametrize(
    "select",
    ["SELECT count(*) AS n FROM s", f"SELECT k, count(*) AS n FROM s GROUP BY {WINDOW}, k"],
    ids=["divided", "by key"],
)
def test_rows_that_no_row_stands_for_yet_move_with_the_state(select: str) -> None:
    """Most batches have one row, which is dropped."""
    catalog = Catalog(None, "UTC", connectors())
    catalog.execute(f"{STREAM} CREATE QUERY q WITH (accuracy = '10%', scaled = true) AS {select}")
    query = replace(catalog.queries["q"], shed=0.8)
    parts = in_fragments([query])
    replicas = Replicas(parts, place(parts, 2), declared=[query])
    batch = 0
    for homes in (1, 3, 1, 2):
        for _ in range(7):
            replicas.epoch([("s", rows(batch, 1))])
            batch += 1
        parts = [query] if homes == 1 else in_fragments([query])
        replicas.rescale(Placement.single((query,)) if homes == 1 else place(parts, homes), parts)
    replicas.epoch([("s", rows(batch))])
    replicas.finish()
    found = replicas.table("q").to_pylist()
    assert sum(row["n"] for row in (found if "window" in select else found[-1:])) == batch + ROWS

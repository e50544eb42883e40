"""Counts and sums scaled up while rows are shed: right while the share changes, in every window, after a restart."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headgate.connectors.registry import connectors
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.weights import even_weights
from headgate.runtime import Network
from headgate.runtime.scaling import scalable
from headgate.runtime.store import Folder
from headgate.sql import Catalog

STREAM = """
CREATE STREAM s (ts TIMESTAMP, k INT, a INT, WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS)
USING json OPTIONS (path 'unused');
"""
OPTIONS = "WITH (accuracy = '30%', scaled = true)"
WINDOWS = f"CREATE QUERY p {OPTIONS} AS SELECT count(*) AS n, sum(a) AS t FROM s WHERE a >= 0 GROUP BY {{window}};"
TOTALS = f"CREATE QUERY p {OPTIONS} AS SELECT k + 1 AS k, count(*) AS n, sum(a) AS t FROM s GROUP BY k;"


def declared(text: str) -> dict[str, Query]:
    catalog = Catalog(None, "UTC", connectors())
    catalog.execute(STREAM + text)
    return dict(catalog.queries)


def rows(second: int, count: int = 10) -> pa.RecordBatch:
    """Rows of one second: two keys, and `a` always 3."""
    return pa.record_batch(
        {
            "ts": pa.array([second * 1_000_000 + n for n in range(count)], pa.timestamp("us", "UTC")),
            "k": pa.array([n % 2 for n in range(count)], pa.int32()),
            "a": pa.array([3] * count, pa.int32()),
        }
    )


class Shed:
    """A network with one query, which is cut off and restored where a test says so."""

    def __init__(self, query: Query, folder: Folder, share: float = 0.0, queued: bool = False) -> None:
        self.query, self.folder = replace(query, shed=share), folder
        self.queued = queued
        self.network = self._network()
        self.found: list[dict[str, Any]] = []

    def _network(self) -> Network:
        graph = SharedGraph()
        graph.add(self.query)
        return Network(graph, "rr", store=self.folder)

    def change(self, share: float) -> None:
        self.query = replace(self.query, shed=share)
        self.network.alter(self.query)

    def feed(self, seconds: range) -> None:
        for second in seconds:
            self.network.push("s", rows(second))
            if not self.queued:
                self.network.run()
        self.take()

    def take(self) -> None:
        for result in self.network.take("p"):
            self.found += result.rows.to_pylist()

    def restart(self) -> None:
        manifest = self.network.snapshot()
        self.network = self._network()
        self.network.restore(manifest)

    def finish(self) -> None:
        self.network.finish()
        self.network.run()
        self.take()


@pytest.fixture
def folder(tmp_path: Any) -> Folder:
    return Folder(tmp_path, keep=True)


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("window", ["window(ts, '10 seconds')", "session_window(ts, '100 seconds')"])
def test_windows_before_while_and_after_rows_are_shed(
    folder: Folder, window: str, restarted: bool, queued: bool
) -> None:
    """At 50% every second row; rows that wait in queues keep what they stand for."""
    run = Shed(declared(WINDOWS.format(window=window))["p"], folder, queued=queued)
    for first, share in ((0, 0.0), (10, 0.5), (20, 0.0)):
        run.change(share)
        run.feed(range(first, first + 5))
        if restarted:
            run.restart()
        run.feed(range(first + 5, first + 10))
    run.finish()
    counts = [(row["n"], row["t"]) for row in run.found]
    assert counts == ([(300, 900)] if window.startswith("session") else [(100, 300)] * 3)
    # A restored network counts from zero.
    assert restarted or run.network.metrics()["queries"]["p"]["shed"] == 50


@pytest.mark.parametrize("restarted", [False, True])
def test_totals_that_go_on(folder: Folder, restarted: bool) -> None:
    run = Shed(declared(TOTALS)["p"], folder)
    for first, share in ((0, 0.0), (10, 0.5), (20, 0.0), (30, 0.3)):
        run.change(share)
        run.feed(range(first, first + 10))
        if restarted:
            run.restart()
    run.finish()
    newest = {row["k"]: row for row in run.found}
    assert set(newest) == {1, 2}
    assert sum(row["n"] for row in newest.values()) == 400
    assert sum(row["t"] for row in newest.values()) == 1200
    assert all(abs(row["n"] - 200) < 40 for row in newest.values())


@pytest.mark.parametrize("last", [0.0, 0.3])
def test_no_row_is_lost_when_the_share_changes_between_small_batches(folder: Folder, last: float) -> None:
    """A row that is dropped before any was kept is represented by the next one, under whatever share."""
    run = Shed(declared(WINDOWS.format(window="window(ts, '1 hour')"))["p"], folder, share=0.5)
    for second in range(40):
        run.network.push("s", rows(second, 1))
        if second % 2:
            run.change(last if second == 39 else 0.7 - second / 1000)
    run.network.push("s", rows(40, 10))
    run.network.run()
    run.finish()
    assert [(row["n"], row["t"]) for row in run.found] == [(50, 150)]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_rows_that_no_row_stands_for_yet_survive_a_restart(folder: Folder, share: float) -> None:
    """Also if nothing is shed after the restart, as in the first epochs of an engine."""
    run = Shed(declared(WINDOWS.format(window="window(ts, '1 hour')"))["p"], folder, share=0.7)
    for second in range(40):
        run.network.push("s", rows(second, 1))
        if second % 2:
            run.restart()
    run.query = replace(run.query, shed=share)
    run.restart()
    run.network.push("s", rows(40, 10))
    run.network.run()
    run.finish()
    assert [(row["n"], row["t"]) for row in run.found] == [(50, 150)]


def test_what_load_shedding_carries_over_is_dropped_with_its_query(folder: Folder) -> None:
    run = Shed(declared(TOTALS)["p"], folder, share=0.7)
    for second in range(2):
        run.network.push("s", rows(second, 1))
    manifest = json.loads(json.dumps(run.network.snapshot()))
    assert [(each["queries"], each["unrepresented"]) for each in manifest["shedding"]] == [(["p"], 1)]
    run.query = declared(TOTALS.replace("QUERY p", "QUERY r"))["r"]
    run.network = run._network()
    run.network.restore(manifest)
    assert run.network.snapshot()["shedding"] == []


def test_a_snapshot_of_an_earlier_version_is_restored(folder: Folder) -> None:
    run = Shed(declared(TOTALS)["p"], folder, share=0.5)
    run.feed(range(3))
    manifest = run.network.snapshot()
    del manifest["shedding"]
    run.network = run._network()
    run.network.restore(manifest)
    run.feed(range(3, 6))
    assert sum({row["k"]: row["n"] for row in run.found}.values()) == 60


def test_a_leaf_that_a_query_shares_which_is_not_scaled_is_not_shed(folder: Folder) -> None:
    both = declared(WINDOWS.format(window="window(ts, '10 seconds')"))
    other = replace(both["p"], name="q", spec=replace(both["p"].spec, scaled=False), shed=0.5)
    graph = SharedGraph()
    graph.add(replace(both["p"], shed=0.5))
    graph.add(other)
    network = Network(graph, "fifo")
    network.push("s", rows(1))
    assert network.metrics()["queries"]["p"]["shed"] == 0


def test_batches_of_which_no_row_is_kept_are_represented_by_the_next() -> None:
    shed = Shed(declared(WINDOWS.format(window="window(ts, '1000 seconds')"))["p"], Folder(), 0.7)
    for second in range(100):
        shed.network.push("s", rows(second, 1))
        shed.network.run()
    shed.finish()
    (row,) = shed.found
    assert 97 <= row["n"] <= 100
    assert shed.network.metrics()["queries"]["p"]["shed"] == 70


def test_weights_are_even_and_add_up() -> None:
    random = np.random.default_rng(1)
    assert sorted(even_weights(10, 7, random)) == [1, 1, 1, 1, 2, 2, 2]
    assert sorted(even_weights(4, 2, random)) == [2, 2]


def test_what_can_be_scaled() -> None:
    plans = declared(
        "CREATE QUERY a AS SELECT sum(a) AS t FROM s WHERE k = 1 GROUP BY window(ts, '1 second');"
        "CREATE QUERY b AS SELECT a FROM s;"
        "CREATE QUERY c AS SELECT a + 1 AS b, count(*) AS n FROM s GROUP BY a;"
    )
    assert {name: scalable(query.plan) for name, query in plans.items()} == {"a": True, "b": False, "c": True}

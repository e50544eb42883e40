"""Which queries set the weight and the pace of a lane, and what ends its pause."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headgate.graph.queries import Query
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.lane import Lane, LaneBatch
from headgate.spark.lanes import Lanes
from headgate.spark.pace import LatencyTarget, Pace
from headgate.spark.source_rows import SourceRows
from headgate.sql import Catalog

SCRIPT = """
CREATE CLASS critical WITH (priority = 6);
CREATE STREAM s (k INT) USING rate;
CREATE QUERY slow WITH (latency = '1 hour') AS SELECT k FROM s;
CREATE QUERY quick CLASS critical WITH (latency = '1 second') AS SELECT k + 1 AS k FROM s;
CREATE QUERY plain AS SELECT k + 2 AS k FROM s;
"""


class Opener:
    """Stands in for the sources."""

    def __init__(self) -> None:
        self.limited: list[str] = []

    def group_key(self, stream: Any) -> object:
        return None

    def limit(self, stream: Any) -> dict[str, str]:
        self.limited.append(stream.name)
        return {}

    def open(self, streams: Any) -> SourceRows:
        return SourceRows(None)


class Planned:
    """The lanes of a script."""

    def __init__(self, root: Path) -> None:
        self.catalog = Catalog()
        self.catalog.execute(SCRIPT)
        self.pace = Pace()
        self.opener = Opener()
        checkpoint = Checkpoint(str(root))
        unused: Any = SimpleNamespace()
        self.lanes = Lanes(self.opener, checkpoint, unused, {}, unused, unused, unused, pace=self.pace)
        self.hurried: list[str] = []

    def plan(self, *running: str) -> None:
        queries: dict[str, Query] = dict(self.catalog.queries)
        self.lanes.plan(dict(self.catalog.streams), queries.values(), [queries[name] for name in running])
        (planned,) = self.lanes._planned.values()
        if planned.lane is None:
            planned.lane = SimpleNamespace(hurry=lambda: self.hurried.append("main"))  # type: ignore[assignment]

    @property
    def target(self) -> str | None:
        return None if self.pace.target is None else self.pace.target.query


def test_only_running_queries_set_the_pace_and_the_weight(tmp_path: Path) -> None:
    planned = Planned(tmp_path)
    planned.plan("slow", "plain")
    assert (planned.target, planned.lanes.weights(["main"])) == ("slow", {"main": 1})
    planned.plan("slow", "quick")
    assert (planned.target, planned.lanes.weights(["main"])) == ("quick", {"main": 6})
    planned.plan("plain")
    assert (planned.target, planned.lanes.weights(["main"])) == (None, {"main": 1})
    assert not planned.opener.limited, "a class that may come is not limited"


def test_a_new_query_and_a_tighter_spec_end_the_pause(tmp_path: Path) -> None:
    planned = Planned(tmp_path)
    planned.plan("slow")
    planned.plan("slow")
    assert planned.hurried == []
    planned.plan("slow", "plain")
    assert planned.hurried == ["main"]
    planned.plan("slow")
    assert planned.hurried == ["main"], "a query that goes is no reason"
    slow = planned.catalog.queries["slow"]
    planned.catalog.put_query(replace(slow, spec=replace(slow.spec, latency=1_000_000)))
    planned.plan("slow")
    assert planned.hurried == ["main", "main"]
    planned.catalog.put_query(slow)
    planned.plan("slow")
    assert planned.hurried == ["main", "main"], "nor is a looser spec"


def test_a_hurried_lane_looks_for_rows_at_once() -> None:
    pace = Pace()
    pace.arrange("main", 1.0, LatencyTarget(3600.0, "slow"))
    waiting = threading.Event()

    def end(lane: str) -> float:
        waiting.set()
        return 3600.0

    pace.end = end  # type: ignore[method-assign]

    def deliver(batch: LaneBatch) -> None:
        batch.done.set_result(None)

    lane = Lane("main", "main@1", None, False, "unused", deliver, lambda *_: None, pace=pace)
    thread = threading.Thread(target=lane._batch, args=(None, 0), daemon=True)
    thread.start()
    assert waiting.wait(60)
    thread.join(0.05)
    assert thread.is_alive()
    lane.hurry()
    thread.join(60)
    assert not thread.is_alive()

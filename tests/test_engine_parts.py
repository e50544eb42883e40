"""Parts of the engine that need no Spark session: declarations that are undone, the newest rows of queries."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from headgate.engine import Engine
from headgate.engine.declarations import Declarations
from headgate.engine.options import EngineOptions
from headgate.engine.query_sinks import QuerySinks
from headgate.graph.queries import Query, Sink, Stream
from headgate.graph.types import INT, Schema
from headgate.runtime.modes import mode_of
from headgate.spark.lazy_session import LazySession
from headgate.spark.results import Results
from headgate.sql import Catalog
from tests.waiting import LIMIT


def declarations() -> Declarations:
    made = Declarations(Catalog(), "fifo", None)
    made.catalog.add_stream(Stream("s", Schema.of(("v", INT)), None, 0, "dataframe"))
    made.frames["s"] = object()
    return made


def test_an_undone_change_leaves_the_mapping_of_frames_that_lanes_read() -> None:
    declared = declarations()
    seen_by_lanes = declared.frames
    mark = declared.mark()
    declared.catalog.query("q", "SELECT v FROM s")
    declared.frames["t"] = object()
    declared.discard_state("q")
    declared.back_to(mark)
    assert list(seen_by_lanes) == ["s"]
    assert declared.queries == {}
    assert declared.attempts == {}
    declared.frames["u"] = object()
    assert list(seen_by_lanes) == ["s", "u"]


class Opened:
    """Stands in for a publisher: opens the sinks as that does."""

    def __init__(self, sinks: QuerySinks) -> None:
        self._sinks = sinks
        self.queries: list[str] = []
        self.writers: list[Any] = []

    def open(self, query: Query, extra: tuple[Sink, ...] = ()) -> None:
        self.queries.append(query.name)
        self.writers = [self._sinks.open(query, sink, "run") for sink in (*query.sinks, *extra)]


def test_the_newest_rows_outlive_a_restart_and_end_with_the_query() -> None:
    query = declarations().catalog.query("q", "SELECT v FROM s")
    sinks = QuerySinks(LazySession(object(), None, True), kept=2)
    publisher: Any = Opened(sinks)
    sinks.open_new([query], publisher)
    sinks.open_new([query], publisher)
    assert publisher.queries == ["q"]
    heard: list[int] = []
    end = sinks.follow("q", lambda results: heard.append(results.epoch))
    publisher.writers[0].publish(Results("q", 1, pa.table({"v": pa.array([1, 2, 3], pa.int32())})))
    end()
    publisher.writers[0].publish(Results("q", 2, pa.table({"v": pa.array([4], pa.int32())})))
    assert heard == [1]
    assert sinks.newest(query)["v"].to_pylist() == [3, 4]
    sinks.begin()
    sinks.open_new([query], publisher)
    assert publisher.queries == ["q", "q"]
    assert sinks.newest(query)["v"].to_pylist() == [3, 4]
    mark = sinks.mark()
    sinks.forget("q")
    assert sinks.newest(query).num_rows == 0
    sinks.back_to(mark)
    assert sinks.newest(query)["v"].to_pylist() == [3, 4]


@pytest.mark.parametrize(
    ("wrong", "says"), [({"every": -1.0}, "every is -1"), ({"trigger_cores": 0.0}, "trigger_cores is 0")]
)
def test_wrong_options_are_refused(wrong: dict[str, float], says: str) -> None:
    given: dict[str, Any] = {
        "folder": "/none",
        "temporary": False,
        "budget": None,
        "every": 0.0,
        "trigger_cores": None,
        "mode": mode_of("policy"),
        "threads": None,
        "memory": None,
        "results": 1,
        "dead_letters_folder": None,
        "lane_log": None,
    }
    assert EngineOptions(**given).dead_letters == "/none/dead-letters"
    with pytest.raises(ValueError, match=says):
        EngineOptions(**{**given, **wrong})


def test_metrics_do_not_wait_while_a_change_waits_for_an_epoch() -> None:
    """Ctrl-C is noticed between two looks at the metrics."""
    engine = Engine()
    engine.execute("CREATE STREAM s (v INT) USING json OPTIONS (path 'unused')")
    engine.query("q", "SELECT v FROM s")
    held, release = threading.Event(), threading.Event()

    def change() -> None:
        with engine._lock:
            held.set()
            release.wait(LIMIT)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(change)
        assert held.wait(LIMIT)
        try:
            assert set(engine.metrics()["queries"]) == {"q"}
        finally:
            release.set()
    engine.query("r", "SELECT v FROM s")
    assert set(engine.metrics()["queries"]) == {"q", "r"}

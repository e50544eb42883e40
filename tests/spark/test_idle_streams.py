"""Streams that bring nothing: when they are idle, the watermarks they get, and what joins and unions then put out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from headgate.spark.idle_streams import IdleStreams
from headgate.sql import Catalog
from tests.spark.epochs_run import Run

SECOND = 1_000_000
STREAMS = """
CREATE STREAM s (ts TIMESTAMP, k INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS) USING rate {s};
CREATE STREAM t (ts TIMESTAMP, k INT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND) USING rate {t};
CREATE QUERY pairs AS SELECT s.k, t.k AS other FROM s LEFT JOIN t ON s.k = t.k
AND t.ts BETWEEN s.ts AND s.ts + INTERVAL 1 SECOND;
CREATE QUERY counts AS SELECT window(ts, '10 seconds').start AS w, count(*) AS n
FROM (SELECT ts FROM s UNION ALL SELECT ts FROM t) GROUP BY window(ts, '10 seconds');
"""
ALONE = """
CREATE STREAM s (ts TIMESTAMP, k INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS) USING rate {s};
CREATE QUERY counts AS SELECT window(ts, '10 seconds').start AS w, count(*) AS n
FROM s GROUP BY window(ts, '10 seconds');
"""
IDLE = "WITH (idle = '10 seconds')"


def queries_of(script: str) -> tuple[Any, ...]:
    catalog = Catalog()
    catalog.execute(script)
    return tuple(dict(catalog.queries).values())


def planned(idle: dict[str, int], script: str = STREAMS) -> tuple[IdleStreams, list[float]]:
    now = [100.0]
    streams = IdleStreams(lambda: now[0])
    streams.plan({name: each * SECOND for name, each in idle.items()}, queries_of(script.format(s="", t="")))
    return streams, now


def test_an_idle_stream_follows_those_that_are_not() -> None:
    streams, now = planned({"t": 10})
    times = {"s": 50 * SECOND, "t": 20 * SECOND}
    streams.arrived(["s", "t"])
    assert streams.watermarks(times) == {}
    assert streams.wait == 10
    now[0] += 10
    assert streams.wait == 0
    assert streams.watermarks(times) == {"t": 48 * SECOND}
    assert not streams.behind(times)
    assert streams.behind({**times, "s": 60 * SECOND}), "another epoch should tell it"
    assert streams.wait == 10, "next when the silence has doubled"
    streams.arrived(["t"])
    assert streams.watermarks(times) == {}
    now[0] += 10
    assert streams.watermarks({"s": 40 * SECOND, "t": 20 * SECOND}) == {"t": 48 * SECOND}, "it never falls"


def test_a_stream_that_is_not_declared_idle_holds_back_the_others() -> None:
    streams, now = planned({})
    now[0] += 1000
    assert streams.watermarks({"s": 50 * SECOND}) == {}
    assert streams.wait is None
    streams, now = planned({"s": 10})
    streams.arrived(["s"])
    now[0] += 1000
    assert streams.watermarks({"s": 50 * SECOND}) == {}, "t has brought nothing, and may: s must wait for it"


def test_where_all_are_idle_time_passes() -> None:
    streams, now = planned({"s": 10, "t": 20})
    streams.arrived(["s"])
    times = {"s": 50 * SECOND}
    now[0] += 15
    assert streams.watermarks(times) == {}, "t is not idle yet"
    now[0] += 10
    assert streams.watermarks(times) == {"s": 73 * SECOND, "t": 73 * SECOND}, "t has no rows: it follows s"
    now[0] += 5
    assert streams.watermarks(times)["s"] == 78 * SECOND


@pytest.mark.parametrize("idle", [False, True])
def test_joins_and_unions_go_on_without_a_silent_stream(tmp_path: Path, idle: bool) -> None:
    run = Run(tmp_path, STREAMS.format(s="", t=IDLE if idle else ""))
    run.bring("t", (1.0, 1))
    run.bring("s", (1.0, 1), (2.0, 2))
    run.wait(5)
    run.bring("s", (33.0, 3))
    assert run.results("pairs") == [(1, 1)]
    run.wait(4)
    assert run.results("pairs") == [(1, 1)], "t has been silent for 9 seconds"
    run.wait(1)
    found = [(w.timestamp(), n) for w, n in run.results("counts")]
    if not idle:
        assert run.results("pairs") == [(1, 1)], "as in Spark: t may still bring a partner of 2"
        assert found == []
        return
    assert run.results("pairs") == [(1, 1), (2, None)]
    assert found == [(0, 3)], "the watermark of s is 31"
    run.bring("s", (60.0, 4))
    assert (3, None) in run.results("pairs"), "t follows s while it is silent"
    # It comes back: old rows are late, new ones are not.
    run.bring("t", (2.0, 2), (60.5, 4))
    assert (4, 4) in run.results("pairs")
    assert (2, 2) not in run.results("pairs")


def test_the_last_windows_of_a_single_stream_end(tmp_path: Path) -> None:
    run = Run(tmp_path, ALONE.format(s=IDLE))
    run.bring("s", (1.0, 1), (11.0, 1), (12.0, 2))
    run.wait(9.5)
    assert [n for _, n in run.results("counts")] == [1], "the watermark is 10"
    epochs = len(run.done)
    run.wait(0.5)
    assert [n for _, n in run.results("counts")] == [1, 2], "12 - 2 + 10 = 20"
    for _ in range(100):
        run.wait(10)
    assert len(run.done) - epochs < 10, "an idle engine stays idle: epochs become rare"


def test_an_idle_watermark_survives_a_restart(tmp_path: Path) -> None:
    run = Run(tmp_path, STREAMS.format(s="", t=IDLE))
    run.bring("t", (1.0, 1))
    run.bring("s", (1.0, 1), (33.0, 3))
    run.wait(10)
    again = Run(tmp_path, STREAMS.format(s="", t=IDLE))
    again.batches = run.batches
    again.bring("t", (2.0, 2))
    again.bring("s", (34.0, 2))
    again.wait(10)
    again.bring("s", (70.0, 5))
    assert (3, None) in again.results("pairs")
    assert sorted(cast(Any, again.results("counts")))[0][1] == 2, "the row of t at 2 s is late"

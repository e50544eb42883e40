"""Queries that come, pause, move and go on Spark while others run, with one replica and with two."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from tests.arriving import arrive_json
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE CLASS critical WITH (priority = 6);
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
USING json OPTIONS (path '{root}/in');
CREATE QUERY alarm CLASS critical AS SELECT v FROM s WHERE v >= 0;
CREATE QUERY kept AS SELECT k, v FROM s WHERE v % 2 = 0;
CREATE QUERY lost AS SELECT v FROM s WHERE v % 2 = 1;
CREATE QUERY total AS SELECT count(*) AS n, sum(v) AS t FROM s;
CREATE QUERY windows AS SELECT window(ts, '10 seconds') AS w, count(*) AS n FROM s GROUP BY window(ts, '10 seconds');
CREATE QUERY first ONCE AS SELECT max(v) AS most FROM s GROUP BY window(ts, '10 seconds');
"""


class Feed:
    """Rows that arrive, a hundred at a time and a second of event time apart."""

    def __init__(self, root: Path, engine: hg.Engine) -> None:
        self.root, self.engine, self.rows = root, engine, 0

    def more(self) -> None:
        """A hundred rows, and waits until the highest class has answered them."""
        ahead = range(self.rows, self.rows + 100)
        self.rows += 100
        made = [{"ts": f"2024-03-01T10:{n // 60:02d}:{n % 60:02d}Z", "k": f"k{n % 7}", "v": n} for n in ahead]
        before = self.engine.results("alarm").num_rows
        arrive_json(self.root / "in" / f"{self.rows}.json", made)
        wait_until(lambda: self.engine.results("alarm").num_rows == before + 100)


def opened(spark: Any, root: Path, replicas: int) -> hg.Engine:
    engine = hg.Engine("cqc", str(root / "ck"), spark=spark, replicas=replicas, results=100_000)
    engine.execute(SCRIPT.format(root=root))
    return engine


def state(engine: hg.Engine, query: str) -> Any:
    return engine.metrics()["queries"][query]["state"]


def values(engine: hg.Engine, query: str) -> list[int]:
    found: list[int] = sorted(engine.results(query).column("v").to_pylist())
    return found


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_life(spark: Any, tmp_path: Path, replicas: int) -> None:
    (tmp_path / "in").mkdir()
    engine = opened(spark, tmp_path, replicas)
    feed = Feed(tmp_path, engine)
    engine.start()
    feed.more()
    for query in ("kept", "lost", "total"):
        wait_until(lambda query=query: engine.results(query).num_rows > 0)  # type: ignore[misc]
    wait_until(lambda: state(engine, "first") == "stopped")
    answer = sorted(engine.results("first").column("most").to_pylist())
    engine.execute(
        "PAUSE QUERY kept KEEP ROWS; PAUSE QUERY total; PAUSE QUERY windows; ALTER QUERY lost SET CLASS critical"
    )
    engine.pause("lost", keep=False)
    with pytest.raises(hg.SqlError, match="query kept is paused already"):
        engine.pause("kept")
    with pytest.raises(hg.SqlError, match="query alarm is not paused"):
        engine.resume("alarm")
    feed.more()
    feed.more()
    wait_until(lambda: engine.metrics()["queries"]["lost"].get("dropped", 0) >= 100)
    assert (len(values(engine, "kept")), len(values(engine, "lost"))) == (50, 50)
    assert state(engine, "kept") == "paused"
    if replicas == 2:
        engine.rescale(1)
    # Without an epoch after it: a restart knows it all the same.
    engine.stop_query("windows")
    engine.stop()

    engine = opened(spark, tmp_path, replicas)
    seen = feed.rows
    feed = Feed(tmp_path, engine)
    feed.rows = seen
    engine.start()
    try:
        assert [state(engine, name) for name in ("kept", "lost", "total", "windows", "first")] == [
            *["paused"] * 3,
            *["stopped"] * 2,
        ]
        assert engine.queries["lost"].cls.name == "critical", "it was moved while it ran"
        feed.more()
        engine.resume("lost")
        engine.execute("RESUME QUERY kept; RESUME QUERY total")
        feed.more()
        # The rows of the first hundred were published by the first engine.
        wait_until(lambda: values(engine, "kept") == list(range(100, 500, 2)))
        wait_until(lambda: values(engine, "lost") == list(range(401, 500, 2)))
        wait_until(lambda: engine.results("total").to_pylist() == [{"n": 500, "t": sum(range(500))}])
        assert engine.results("first").num_rows == 0, f"it has answered already: {answer}"
        # Of both parities: they come to its selection. The results above may be newer than the metrics.
        wait_until(lambda: engine.metrics()["queries"]["lost"]["dropped"] == 300)
        with pytest.raises(hg.SqlError, match="query windows has stopped"):
            engine.resume("windows")
        engine.drop("windows")
        engine.query("windows", "SELECT count(*) AS n FROM s")
        feed.more()
        wait_until(lambda: engine.results("windows").to_pylist() == [{"n": 100}])
        assert engine.metrics()["queries"]["lost"]["dropped"] == 300, "it has run since"
    finally:
        engine.stop()


@pytest.mark.slow
def test_a_query_begins_and_ends_on_time(spark: Any, tmp_path: Path) -> None:
    """Nothing runs before the first query begins; the clock is the machine's, and only its order is relied on."""
    (tmp_path / "in").mkdir()
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    engine.execute(SCRIPT.format(root=tmp_path).split("CREATE QUERY")[0])
    now = datetime.now(UTC)
    with pytest.raises(hg.SqlError, match="START AT '2001-01-01 00:00:00' is in the past"):
        engine.query("late", "SELECT v FROM s", start="2001-01-01 00:00:00")
    engine.query("alarm", "SELECT v FROM s", start=now + timedelta(seconds=3))
    engine.query("never", "SELECT v FROM s", start=now + timedelta(days=3))
    with pytest.raises(hg.EngineError, match="query alarm starts later; leave out START AT, or drop it, to run once"):
        engine.run_once()
    engine.start()
    try:
        feed = Feed(tmp_path, engine)
        wait_until(lambda: state(engine, "alarm") == "running")
        feed.more()
        end = datetime.now(UTC) + timedelta(seconds=2)
        engine.query("brief", "SELECT k, v FROM s", stop=end)
        assert state(engine, "never") == "scheduled"
        wait_until(lambda: state(engine, "brief") == "stopped")
        wait_until(lambda: "brief" not in [query.name for query in engine._run.epochs.plan.queries])  # type: ignore[union-attr]
        feed.more()
        assert engine.results("brief").num_rows == 0
    finally:
        engine.stop()


@pytest.mark.slow
def test_a_query_answers_exactly_the_rows_between_its_times(spark: Any, tmp_path: Path) -> None:
    """Rows are sent when the query is known to be scheduled, running and stopped, never by the clock."""
    (tmp_path / "in").mkdir()
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark, results=1000)
    engine.execute(SCRIPT.format(root=tmp_path).split("CREATE QUERY")[0])
    engine.query("alarm", "SELECT v FROM s WHERE v >= 0", cls="critical")
    engine.start()

    def planned() -> bool:
        return "timed" in [query.name for query in engine._run.epochs.plan.queries]  # type: ignore[union-attr]

    try:
        feed = Feed(tmp_path, engine)
        feed.more()
        now = datetime.now(UTC)
        times = {"start": now + timedelta(seconds=15), "stop": now + timedelta(seconds=35)}
        engine.query("timed", "SELECT v, k FROM s", **times)
        feed.more()
        assert state(engine, "timed") == "scheduled"
        wait_until(planned)
        feed.more()
        wait_until(lambda: values(engine, "timed") == list(range(200, 300)))
        wait_until(lambda: not planned())
        assert state(engine, "timed") == "stopped"
        feed.more()
        assert values(engine, "timed") == list(range(200, 300))
    finally:
        engine.stop()

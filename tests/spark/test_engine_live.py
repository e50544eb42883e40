"""An engine that starts without queries: declared, refused, failed, tried again and followed while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.spark.results import Results, SinkError
from headgate.spark.source_rows import SourceError
from tests.arriving import arrive_json
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


def test_everything_is_declared_while_the_engine_runs(spark: Any, tmp_path: Path) -> None:
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    engine.start()
    try:
        assert engine.metrics()["queries"] == {}
        arrive_json(tmp_path / "in" / "0.json", [{"v": 1, "k": "a"}, {"v": 1000, "k": "b"}])
        arrive_json(tmp_path / "names" / "0.json", [{"k": "a", "name": "one"}])
        stream = f"CREATE STREAM s (v INT, k STRING) USING json OPTIONS (path '{tmp_path}/in')"
        # Of a script that is refused nothing is left, whatever refused it: the text, a source or a sink.
        for wrong, error in (
            (f"{stream}; CREATE QUERY q AS SELECT nothing FROM s", hg.SqlError),
            ("CREATE STREAM s (wrong BIGINT) USING rate; CREATE QUERY q AS SELECT wrong FROM s", SourceError),
            (f"{stream}; CREATE QUERY q INTO nosuch OPTIONS (path 'x') AS SELECT v FROM s", SinkError),
        ):
            with pytest.raises(error):
                engine.execute(wrong)
            assert (dict(engine.catalog.streams), engine.queries) == ({}, {})
        assert [each.name for each in engine.check(f"{stream}; CREATE QUERY q AS SELECT v FROM s")] == ["s", "q"]
        assert engine.queries == {}
        engine.execute(
            f"""{stream}; CREATE TABLE names (k STRING, name STRING) USING json OPTIONS (path '{tmp_path}/names');
            CREATE FUNCTION picky(v INT) RETURNS INT AS 'tests.spark.functions:picky';
            CREATE QUERY fine AS SELECT s.v, n.name FROM s JOIN names n ON s.k = n.k;
            CREATE QUERY fails AS SELECT picky(v) AS v FROM s"""
        )
        wait_until(lambda: engine.results("fine").to_pylist() == [{"v": 1, "name": "one"}])
        wait_until(lambda: engine.metrics()["queries"]["fails"]["state"] == "failed")
        with pytest.raises(hg.EngineError, match="query fine has not failed"):
            engine.retry("fine")
        seen: list[Results] = []
        end = engine.follow("fails", seen.append)
        engine.retry("fails")
        assert engine.metrics()["queries"]["fails"]["state"] == "running"
        arrive_json(tmp_path / "in" / "1.json", [{"v": 2, "k": "a"}])
        wait_until(lambda: bool(seen))
        assert [row for results in seen for row in results.table.to_pylist()] == [{"v": 2}]
        end()
        # The same text again is another query: its results start anew.
        engine.execute("DROP QUERY FINE; CREATE QUERY fine AS SELECT s.v, n.name FROM s JOIN names n ON s.k = n.k")
        arrive_json(tmp_path / "in" / "2.json", [{"v": 3, "k": "a"}])
        wait_until(lambda: engine.results("fine").num_rows > 0)
        assert engine.results("fine").column("v").to_pylist() == [3]
        assert len(seen) == 1
    finally:
        engine.stop()

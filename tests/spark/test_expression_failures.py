"""Catalyst raises on a row: the queries that use the expression fail, and all others get every row once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.graph.queries import Sink
from headgate.spark.required_columns import required_columns
from tests.arriving import arrive_json
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

STREAMS = """
CREATE STREAM s (ts TIMESTAMP, kind STRING, x STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
USING json OPTIONS (path '{root}/s', maxFilesPerTrigger '1');
CREATE STREAM t (ts TIMESTAMP, kind STRING, x STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
USING json OPTIONS (path '{root}/t', maxFilesPerTrigger '1');
"""
GOOD = {
    "plain": "SELECT kind, v FROM s WHERE v > 3",
    "hashed": "SELECT kind, sha2(x, 256) AS h FROM s",
    # The same expression as the failing query, on rows where it does not raise.
    "guarded": "SELECT v, to_timestamp(x, 'd MMMM yyyy') AS d FROM s WHERE kind = 'date'",
    "inside": "SELECT v FROM s WHERE kind = 'date' AND to_timestamp(x, 'd MMMM yyyy') > TIMESTAMP '2020-01-02'",
    "other_stream": "SELECT v, to_timestamp(x, 'd MMMM yyyy') AS d FROM t",
    "sums": "SELECT window(ts, '10 seconds') AS w, kind, sum(v) AS n FROM s GROUP BY window(ts, '10 seconds'), kind",
}
FAILING = {
    "dates": "SELECT v, to_timestamp(x, 'd MMMM yyyy') AS d FROM s",
    "counted": "SELECT window(ts, '10 seconds') AS w, count(to_timestamp(x, 'd MMMM yyyy')) AS n FROM s"
    " WHERE v >= 0 GROUP BY window(ts, '10 seconds')",
}


def _row(n: int, kind: str, x: str) -> dict[str, Any]:
    return {"ts": f"2024-03-01T10:{n // 60:02d}:{n % 60:02d}Z", "kind": kind, "x": x, "v": n % 10}


def _write(root: Path, number: int, bad: bool) -> None:
    for stream in "st":
        rows = [_row(number * 20 + n, "date", f"{n % 28 + 1} January 2020") for n in range(20)]
        if bad and stream == "s":
            rows[7] = _row(number * 20 + 7, "text", "not a date")
        arrive_json(root / stream / f"{number}.json", rows)


def _engine(spark: Any, root: Path) -> hg.Engine:
    engine = hg.Engine("cqc", str(root / "ck"), spark=spark)
    engine.execute(STREAMS.format(root=root))
    for name, select in {**GOOD, **FAILING}.items():
        engine.query(name, select, sink=Sink("parquet", {"path": f"{root}/out/{name}"}))
    return engine


def _found(root: Path, name: str) -> Counter[str]:
    return Counter(repr(r) for f in (root / "out" / name).glob("*.parquet") for r in pq.read_table(f).to_pylist())


def test_only_the_queries_that_use_it_fail_and_stay_failed_after_a_restart(spark: Any, tmp_path: Path) -> None:
    _write(tmp_path, 0, bad=False)
    engine = _engine(spark, tmp_path)
    wanted = required_columns(engine.queries.values())
    assert len(wanted["s"].foreign) == 2, "the test is about expressions that Catalyst computes"
    engine.start()
    try:
        wait_until(lambda: engine.results("dates").num_rows == 20)
        assert engine.metrics()["queries"]["dates"]["state"] == "running"
        _write(tmp_path, 1, bad=True)
        _write(tmp_path, 2, bad=True)
        wait_until(lambda: engine.results("hashed").num_rows == 60 and engine.results("other_stream").num_rows == 60)
        queries = engine.metrics()["queries"]
        assert {name for name in queries if queries[name]["state"] == "failed"} == set(FAILING)
        error = queries["dates"]["error"]
        assert error.startswith("query dates failed in project (to_timestamp(`x`, 'd MMMM yyyy')): ")
        assert "not a date" in error
        assert "SQLSTATE" not in error
        assert "\n" not in error
        assert "aggregate" in queries["counted"]["error"]
        assert engine.failure is None
    finally:
        engine.stop()
    _write(tmp_path, 3, bad=True)
    again = _engine(spark, tmp_path)
    again.run_once()
    queries = again.metrics()["queries"]
    assert {name for name in queries if queries[name]["state"] == "failed"} == set(FAILING)
    assert "not a date" in queries["dates"]["error"]
    for stream in "st":
        frame = spark.read.schema("ts TIMESTAMP, kind STRING, x STRING, v INT").json(f"{tmp_path}/{stream}")
        frame.createOrReplaceTempView(stream)
    for name, select in GOOD.items():
        assert _found(tmp_path, name) == Counter(map(repr, spark.sql(select).toArrow().to_pylist())), name
    # Results from before the failure stay.
    assert sum(_found(tmp_path, "dates").values()) == 20


def test_a_damaged_source_file_fails_no_query(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "x.parquet").write_bytes(b"PAR1 this is not Parquet PAR1")
    engine = hg.Engine("cqc", spark=spark)
    engine.execute(f"CREATE STREAM s (x STRING) USING parquet OPTIONS (path '{tmp_path}/s')")
    engine.query("hashed", "SELECT sha2(x, 256) AS h FROM s")
    with pytest.raises(RuntimeError, match=r"x\.parquet"):
        engine.run_once()
    assert engine.metrics()["queries"]["hashed"]["state"] != "failed"

"""The engine on Spark: run_once, running while rows arrive, queries added and dropped, malformed rows, restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.graph.queries import Sink
from headgate.spark.checkpoint import CheckpointError
from headgate.spark.host_client import ensure_hosts
from headgate.spark.messages import HostAddress
from headgate.spark.processes import is_alive
from headgate.spark.results import SinkError
from headgate.spark.source_rows import SourceError
from tests.arriving import arrive_json
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

STREAM = """
CREATE CLASS critical WITH (priority = 6);
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
USING {format} OPTIONS (path '{root}/in');
"""


def _rows(start: int, count: int) -> list[dict[str, Any]]:
    return [
        {"ts": f"2024-03-01T10:{(n // 60) % 60:02d}:{n % 60:02d}Z", "k": f"k{n % 3}", "v": n}
        for n in range(start, start + count)
    ]


def test_run_once_writes_to_every_sink(spark: Any, tmp_path: Path) -> None:
    arrive_json(tmp_path / "in" / "a.json", [*_rows(0, 100), "{broken", *_rows(100, 20)])
    seen: list[pa.Table] = []
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    engine.execute(STREAM.format(format="json", root=tmp_path))
    engine.execute(
        f"""CREATE QUERY high CLASS critical INTO parquet OPTIONS (path '{tmp_path}/high')
        INTO json OPTIONS (path '{tmp_path}/high-json') INTO csv OPTIONS (path '{tmp_path}/high-csv', header 'true')
        INTO orc OPTIONS (path '{tmp_path}/high-orc') AS
        SELECT ts, k, v, upper(k) AS big, crc32(k) AS c FROM s WHERE v >= 90"""
    )
    engine.query("counts", "SELECT k, count(*) AS n FROM s GROUP BY k", sink=hg.callback(seen.append))
    engine.run_once()
    spark.read.schema("ts TIMESTAMP, k STRING, v INT").json(f"{tmp_path}/in").createOrReplaceTempView("s")
    wanted = spark.sql("SELECT ts, k, v, upper(k) AS big, crc32(k) AS c FROM s WHERE v >= 90").toArrow().to_pylist()
    for found in (
        pq.read_table(tmp_path / "high").to_pylist(),
        spark.read.schema("ts TIMESTAMP, k STRING, v INT, big STRING, c LONG").json(f"{tmp_path}/high-json"),
        spark.read.schema("ts TIMESTAMP, k STRING, v INT, big STRING, c LONG").csv(f"{tmp_path}/high-csv", header=True),
        spark.read.orc(f"{tmp_path}/high-orc").drop("epoch"),
    ):
        rows = found if isinstance(found, list) else found.toArrow().to_pylist()
        assert sorted(map(repr, rows)) == sorted(map(repr, wanted))
    assert dict(zip(*engine.results("counts").to_pydict().values(), strict=True)) == {"k0": 40, "k1": 40, "k2": 40}
    assert sum(table.num_rows for table in seen) >= 3
    metrics = engine.metrics()
    assert metrics["dead_letters"] == {"s": 1}
    [dead] = (tmp_path / "ck" / "dead-letters").iterdir()
    letter = json.loads(dead.read_text())
    assert (letter["stream"], letter["row"]) == ("s", "{broken")
    assert "declared columns" in letter["reason"]
    assert metrics["queries"]["high"]["published"] == 30
    assert metrics["classes"]["critical"]["latency"]["mean"] > 0

    again = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    again.execute(STREAM.format(format="json", root=tmp_path))
    again.query("counts", "SELECT k, count(*) AS n FROM s GROUP BY k")
    again.run_once()
    assert again.resumption is not None
    assert again.resumption.complete
    assert again.resumption.removed == ("high",)


def test_queries_policies_and_streams_change_while_the_engine_runs(spark: Any, tmp_path: Path) -> None:
    arrive_json(tmp_path / "in" / "0.json", _rows(0, 10))
    engine = hg.Engine("rr", str(tmp_path / "ck"), spark=spark)
    engine.execute(STREAM.format(format="json", root=tmp_path))
    engine.query("all_rows", "SELECT v FROM s")
    engine.start()
    try:
        wait_until(lambda: engine.results("all_rows").num_rows == 10)
        # A query that needs a column that the lane has not carried so far.
        engine.query("names", "SELECT k, v FROM s WHERE v >= 0")
        engine.policy = "fifo"
        with pytest.raises(SinkError, match=r"^query bad: sink nosuch: Failed to find the data source: nosuch"):
            engine.query("bad", "SELECT v FROM s", sink=Sink("nosuch", {"path": "x"}))
        assert "bad" not in engine.queries
        arrive_json(tmp_path / "in" / "1.json", _rows(10, 10))
        wait_until(lambda: engine.results("all_rows").num_rows == 20)
        wait_until(lambda: engine.results("names").num_rows == 10)
        assert sorted(engine.results("names").column("v").to_pylist()) == list(range(10, 20))
        assert None not in engine.results("names").column("k").to_pylist()
        assert engine.metrics()["policy"] == "fifo"
        # A stream with its own lane, joined with a stream of the first lane.
        (tmp_path / "in2").mkdir()
        engine.execute(
            f"""CREATE STREAM t (ts TIMESTAMP, k STRING, w INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
            USING json OPTIONS (path '{tmp_path}/in2');
            CREATE QUERY pairs AS SELECT s.v, t.w FROM s JOIN t ON s.k = t.k
            AND t.ts BETWEEN s.ts - INTERVAL 1 SECOND AND s.ts + INTERVAL 1 SECOND"""
        )
        arrive_json(tmp_path / "in" / "2.json", _rows(20, 10))
        wait_until(lambda: engine.results("all_rows").num_rows == 30)
        (tmp_path / "in2" / "a.json").write_text(json.dumps({"ts": "2024-03-01T10:00:25Z", "k": "k1", "w": 7}) + "\n")
        wait_until(lambda: engine.results("pairs").num_rows == 1)
        assert engine.results("pairs").to_pylist() == [{"v": 25, "w": 7}]
        engine.drop("names")
        arrive_json(tmp_path / "in" / "3.json", _rows(30, 10))
        wait_until(lambda: engine.results("all_rows").num_rows == 40)
        assert "names" not in engine.metrics()["queries"]
    finally:
        engine.stop()
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    engine.execute(STREAM.format(format="json", root=tmp_path))
    engine.query("all_rows", "SELECT v FROM s")
    with pytest.raises(RuntimeError, match="stream t was read by the script that wrote this checkpoint"):
        engine.start()


def test_a_function_that_raises_fails_its_own_query_only(spark: Any, tmp_path: Path) -> None:
    arrive_json(tmp_path / "in" / "0.json", _rows(0, 900))
    engine = hg.Engine("cqc", spark=spark)
    engine.execute(STREAM.format(format="json", root=tmp_path))
    engine.execute("CREATE FUNCTION picky(v INT) RETURNS INT AS 'tests.spark.functions:picky'")
    engine.query("bad", "SELECT picky(v) AS p FROM s")
    for number in range(20):
        engine.query(f"good{number}", f"SELECT k, v FROM s WHERE v % 20 = {number}")
    engine.start()
    try:
        wait_until(lambda: engine.results("good0").num_rows == 45)
        arrive_json(tmp_path / "in" / "1.json", _rows(900, 900))
        wait_until(lambda: all(engine.results(f"good{n}").num_rows == 90 for n in range(20)))
        wait_until(lambda: engine.metrics()["queries"]["bad"]["state"] == "failed")
        assert "row 1000 is one too many" in engine.metrics()["queries"]["bad"]["error"]
        assert engine.metrics()["queries"]["good3"]["state"] == "running"
    finally:
        engine.stop()


def test_any_streaming_dataframe_and_python_data_sources(spark: Any, tmp_path: Path) -> None:
    frame = spark.readStream.format("rate").option("rowsPerSecond", "50").load()
    engine = hg.Engine("cqc", spark=spark)
    engine.stream("ticks", frame.withWatermark("timestamp", "1 second"))
    engine.query("even", "SELECT value FROM ticks WHERE value % 2 = 0")
    engine.query(
        "w",
        "SELECT window(timestamp, '1 second') AS w, count(*) AS n FROM ticks GROUP BY window(timestamp, '1 second')",
    )
    engine.start()
    try:
        wait_until(lambda: engine.results("even").num_rows > 20 and engine.results("w").num_rows > 1)
    finally:
        engine.stop()
    assert all(value % 2 == 0 for value in engine.results("even").column("value").to_pylist())
    with pytest.raises(RuntimeError, match="is not streaming"):
        hg.Engine(spark=spark).stream("x", spark.range(3))


def test_streams_of_one_shape_are_read_as_one_source(spark: Any, tmp_path: Path) -> None:
    engine = hg.Engine("cqc", spark=spark)
    for number in range(3):
        folder = tmp_path / f"a b{number}"
        folder.mkdir()
        pq.write_table(pa.table({"v": pa.array([number * 10 + n for n in range(5)], pa.int32())}), folder / "x.parquet")
        engine.execute(f"CREATE STREAM s{number} (v INT) USING parquet OPTIONS (path '{folder}')")
        engine.query(f"q{number}", f"SELECT v FROM s{number} WHERE v % 2 = 0")
    engine.start()
    try:
        wait_until(lambda: all(engine.results(f"q{n}").num_rows == 3 for n in range(3)))
        [running] = [query for query in spark.streams.active if query.name.startswith("headgate-main-")]
        # Results of a batch are published shortly before Spark reports the batch.
        wait_until(lambda: running.lastProgress is not None)
        assert len(running.lastProgress["sources"]) == 1
    finally:
        engine.stop()
    for number in range(3):
        values = engine.results(f"q{number}").column("v").to_pylist()
        assert sorted(values) == [v for v in range(number * 10, number * 10 + 5) if v % 2 == 0]


def test_two_engines_in_one_session(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([1, 2], pa.int32())}), tmp_path / "x.parquet")
    engines = [hg.Engine(spark=spark) for _ in range(2)]
    try:
        for engine in engines:
            engine.execute(f"CREATE STREAM s (v INT) USING parquet OPTIONS (path '{tmp_path}')")
            engine.query("q", "SELECT v FROM s")
            engine.start()
        wait_until(lambda: all(engine.results("q").num_rows == 2 for engine in engines))
    finally:
        for engine in engines:
            engine.stop()


def test_a_start_that_fails_leaves_no_host(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"v": pa.array([1], pa.int32())}), tmp_path / "x.parquet")
    started: list[HostAddress | None] = []

    def starting(*given: Any) -> list[HostAddress | None]:
        started.extend(ensure_hosts(*given))
        return started

    monkeypatch.setattr("headgate.engine.run.ensure_hosts", starting)
    engine = hg.Engine(spark=spark)
    engine.execute(f"CREATE TABLE t (v INT) USING parquet OPTIONS (path '{tmp_path}')")
    engine.execute(f"CREATE STREAM s (v INT) USING parquet OPTIONS (path '{tmp_path}')")
    engine.query("q", "SELECT s.v FROM s JOIN t ON s.v = t.v")
    (tmp_path / "x.parquet").unlink()
    tmp_path.rmdir()
    with pytest.raises(SourceError, match="does not exist"):
        engine.start()
    wait_until(lambda: bool(started) and not any(host and is_alive(host.pid) for host in started))


def test_problems_are_reported_at_the_start(spark: Any, tmp_path: Path) -> None:
    engine = hg.Engine(spark=spark)
    with pytest.raises(hg.EngineError, match="declare a query first"):
        engine.run_once()
    engine.execute("CREATE STREAM r (timestamp TIMESTAMP, wrong BIGINT) USING rate")
    engine.query("q", "SELECT wrong FROM r")
    for _ in range(2):
        with pytest.raises(SourceError, match="gives no column wrong; it gives timestamp, value"):
            engine.start()
    (tmp_path / "file").write_text("")
    broken = hg.Engine(checkpoint=str(tmp_path / "file" / "ck"), spark=spark)
    broken.execute("CREATE STREAM r (timestamp TIMESTAMP, value BIGINT) USING rate")
    broken.query("q", "SELECT value FROM r")
    with pytest.raises(CheckpointError, match="cannot be opened"):
        broken.start()


@pytest.mark.parametrize("policy", ["mss", "cqc:inner=tuple-greedy"])
def test_a_policy_for_simulation_only_is_refused(policy: str) -> None:
    with pytest.raises(ValueError, match="runs in simulation only"):
        hg.Engine(policy)

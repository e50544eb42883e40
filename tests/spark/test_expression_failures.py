"""Catalyst cannot plan an expression, or raises on a row: the queries that use it fail, all others lose no row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.graph.queries import Sink
from headgate.spark.epoch_failures import EpochFailures
from headgate.spark.expression_failures import CatalystColumns
from headgate.spark.messages import ExpressionFailure
from headgate.spark.packing import Packing
from headgate.spark.required_columns import required_columns
from headgate.spark.spark_errors import LONGEST, JobLost, job_error, reason
from headgate.sql import Catalog
from tests.arriving import arrive_json, arrive_parquet
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

STREAMS = """
CREATE STREAM s (ts TIMESTAMP, kind STRING, x STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
USING json OPTIONS (path '{root}/s', maxFilesPerTrigger '1');
CREATE STREAM t (ts TIMESTAMP, kind STRING, x STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
USING json OPTIONS (path '{root}/t', maxFilesPerTrigger '1');
CREATE TABLE days (day TIMESTAMP) USING parquet OPTIONS (path '{root}/days');
"""
GOOD = {
    "plain": "SELECT kind, v FROM s WHERE v > 3",
    "hashed": "SELECT kind, sha2(x, 256) AS h FROM s",
    # The same expression as the failing query, on rows where it does not raise.
    "guarded": "SELECT v, to_timestamp(x, 'd MMMM yyyy') AS d FROM s WHERE kind = 'date'",
    "inside": "SELECT v FROM s WHERE kind = 'date' AND to_timestamp(x, 'd MMMM yyyy') > TIMESTAMP '2020-01-02'",
    "cased": "SELECT CASE WHEN v < 0 THEN NULL WHEN kind = 'date' THEN to_timestamp(x, 'd MMMM yyyy') END AS d FROM s",
    "coalesced": "SELECT coalesce(nullif(kind, 'date'), CAST(to_timestamp(x, 'd MMMM yyyy') AS STRING)) AS d FROM s",
    "filtered": "SELECT window(ts, '10 seconds') AS w, count(to_timestamp(x, 'd MMMM yyyy'))"
    " FILTER (WHERE kind = 'date') AS n FROM s GROUP BY window(ts, '10 seconds')",
    "other_stream": "SELECT v, to_timestamp(x, 'd MMMM yyyy') AS d FROM t",
    "sums": "SELECT window(ts, '10 seconds') AS w, kind, sum(v) AS n FROM s GROUP BY window(ts, '10 seconds'), kind",
}
FAILING = {
    "dates": "SELECT v, to_timestamp(x, 'd MMMM yyyy') AS d FROM s",
    "counted": "SELECT window(ts, '10 seconds') AS w, count(to_timestamp(x, 'd MMMM yyyy')) AS n FROM s"
    " WHERE v >= 0 GROUP BY window(ts, '10 seconds')",
    "otherwise": "SELECT CASE WHEN kind = 'date' THEN NULL ELSE to_timestamp(x, 'd MMMM yyyy') END AS d FROM s",
    "joined": "SELECT a.v FROM s a JOIN t b ON b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND"
    " AND to_timestamp(a.x, 'd MMMM yyyy') = to_timestamp(b.x, 'd MMMM yyyy')",
    "looked_up": "SELECT a.v FROM s a JOIN days b ON to_timestamp(a.x, 'd MMMM yyyy') = b.day",
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
    arrive_parquet(root / "days" / "1.parquet", pa.table({"day": pa.array([0], pa.timestamp("us", "UTC"))}))
    engine = hg.Engine("cqc", str(root / "ck"), spark=spark)
    engine.execute(STREAMS.format(root=root))
    for name, select in {**GOOD, **FAILING}.items():
        engine.query(name, select, sink=Sink("parquet", {"path": f"{root}/out/{name}"}))
    return engine


def _found(root: Path, name: str) -> Counter[str]:
    return Counter(repr(r) for f in (root / "out" / name).glob("*.parquet") for r in pq.read_table(f).to_pylist())


@pytest.mark.slow
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


def test_a_damaged_table_is_reported_in_one_line(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "x.parquet").write_bytes(b"PAR1 this is not Parquet PAR1")
    engine = hg.Engine("cqc", spark=spark)
    engine.execute(f"CREATE STREAM s (x STRING) USING parquet OPTIONS (path '{tmp_path}/s')")
    engine.execute(f"CREATE TABLE p (x STRING) USING parquet OPTIONS (path '{tmp_path}/p')")
    engine.query("joined", "SELECT s.x FROM s JOIN p ON s.x = p.x")
    with pytest.raises(RuntimeError, match=r"^table p cannot be read: \[FAILED_READ_FILE.*x\.parquet") as failure:
        engine.run_once()
    assert "\n" not in str(failure.value)


# One expression a line, with what its error says. On the row (a 0, j 'x') each raises, in Spark or in the worker.
NASTY = {
    "timestamp_seconds(CAST(d AS DECIMAL(20, 8)))": "Rounding necessary",
    "CAST(CAST(j AS DATE) AS STRING)": "CAST_INVALID_INPUT",
    "conv(j, 16, 10) + 1 / a": "DIVIDE_BY_ZERO",
    "element_at(sequence(1, 3), a)": "INVALID_INDEX_OF_ZERO",
    "sequence(1, 3)[a + 5]": "INVALID_ARRAY_INDEX",
    "map_concat(map(a, 1), map(a, 2))": "DUPLICATED_MAP_KEY",
    "to_timestamp(j, 'yyyy-MM-dd')": "CANNOT_PARSE_TIMESTAMP",
    "to_timestamp(j, 'bogus bogus')": "All week-based patterns are unsupported",
    "size(sequence(1, (a + 1) * 1000000000000))": "COLLECTION_SIZE_LIMIT_EXCEEDED",
    "sequence(a, a + 5, 0)": "Illegal sequence boundaries: 0 to 5 by 0",
    "from_json(j, 'x INT', map('mode', 'FAILFAST'))": "MALFORMED_RECORD_IN_PARSING",
    "regexp_count(j, '(')": "INVALID_PARAMETER_VALUE.PATTERN",
    "assert_true(a > 1)": "'(a > 1)' is not true!",
    "raise_error(concat('no ', j))": "no x",
    "to_char(CAST(d * 1e30 AS DECIMAL(10, 2)), '9')": "NUMERIC_VALUE_OUT_OF_RANGE",
    "from_utc_timestamp(timestamp '2020-01-01', concat('Mars/', j))": "INVALID_TIMEZONE",
    "make_dt_interval((a + 1) * 1000000000)": "INTERVAL_ARITHMETIC_OVERFLOW",
    "format_string('%d', j)": "IllegalFormatConversionException: d != ",
    "xpath_string(j, 'a[')": "TransformerException: A location path was expected",
    "java_method('java.lang.Integer', 'parseInt', j)": 'NumberFormatException: For input string: "x"',
    "to_csv(named_struct('a', a), map('sep', ''))": "Delimiter cannot be empty",
    "transform(sequence(1, 3), y -> CAST(1 / (y - y + a) AS INT))": "DIVIDE_BY_ZERO",
    "aes_decrypt(j, '0000')": "AES_KEY_LENGTH",
    "md5(lpad(j, 2147483647, 'ab'))": "OutOfMemoryError: Requested array size exceeds VM limit",
    # Texts of rows that read like a lost worker, a full disk, a cancelled job or a process that ended.
    "to_timestamp(concat('Connection reset by peer ', j), 'd MMMM yyyy')": "Connection reset by peer",
    "raise_error(concat('No space left on device, Job 7 cancelled ', j))": "No space left on device, Job 7 cancelled x",
    "raise_error(concat('org.apache.spark.api.python.PythonException: HostLost ', j))": "PythonException: HostLost x",
    "java_method('java.lang.Integer', 'parseInt', concat('Broken pipe\\nCaused by: java.io.EOFException\\n', j))": (
        'NumberFormatException: For input string: "Broken pipe'
    ),
}
INNOCENT = {
    "plain": "SELECT a, j FROM s WHERE a >= 0",
    "hashed": "SELECT a, sha2(j, 256) AS h FROM s",
    # Once among what raised: an array of structs whose members have numbers for names.
    "zipped": "SELECT size(arrays_zip(array(1, 2), array(a))) AS n FROM s",
    "tolerant": "SELECT CASE WHEN j <> 'x' THEN to_timestamp(j, 'yyyy-MM-dd') END AS t FROM s",
}


def test_whatever_an_expression_raises_only_its_query_fails(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def rows(a: int, j: str, d: float) -> pa.Table:
        return pa.table({"a": pa.array([a] * 3, pa.int32()), "j": [j] * 3, "d": [d] * 3})

    files = [rows(0, "x", 1.23456789), rows(5, "2020-01-01", 1.0), rows(0, "x", 0.0)]
    for number, each in enumerate(files):
        arrive_parquet(tmp_path / "s" / f"{number}.parquet", each, modified=1e9 + number)
    engine = hg.Engine("cqc", spark=spark)
    engine.execute(
        "CREATE STREAM s (a INT, j STRING, d DOUBLE) USING parquet"
        f" OPTIONS (path '{tmp_path}/s', maxFilesPerTrigger '1')"
    )
    for number, expression in enumerate(NASTY):
        engine.query(f"q{number}", f"SELECT {expression} AS x FROM s")
    for name, select in INNOCENT.items():
        engine.query(name, select)
    engine.run_once()
    queries = engine.metrics()["queries"]
    for number, (expression, said) in enumerate(NASTY.items()):
        assert queries[f"q{number}"]["state"] == "failed", expression
        error = queries[f"q{number}"]["error"]
        assert said in error, expression
        assert "\n" not in error
        assert "SQLSTATE" not in error
        assert engine.results(f"q{number}").num_rows == 0
    assert len({queries[name]["state"] for name in INNOCENT} | {"failed"}) == 2
    spark.read.parquet(f"{tmp_path}/s").createOrReplaceTempView("s")
    for name, select in INNOCENT.items():
        found, wanted = engine.results(name).to_pylist(), spark.sql(select).toArrow().to_pylist()
        assert Counter(map(repr, found)) == Counter(map(repr, wanted)), name
    assert "Traceback" not in capfd.readouterr().err


def test_a_refusal_leaves_a_running_engine_alone(spark: Any, tmp_path: Path) -> None:
    arrive_json(tmp_path / "s" / "0.json", [_row(0, "text", "a")])
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    engine.execute(STREAMS.format(root=tmp_path).split(";")[0])
    engine.query("plain", "SELECT v, x FROM s")
    engine.start()
    try:
        wait_until(lambda: engine.results("plain").num_rows == 1)
        with pytest.raises(hg.SqlError, match="Rounding necessary"):
            engine.query("rounded", "SELECT timestamp_seconds(CAST(1.23456789 AS DECIMAL(20, 8))) AS t FROM s")
        # Spark's code for it once did not compile.
        engine.query("zipped", "SELECT v, size(arrays_zip(array(1, 2), array(3))) AS n FROM s")
        arrive_json(tmp_path / "s" / "1.json", [_row(1, "text", "b")])
        wait_until(lambda: engine.results("zipped").to_pylist()[-1:] == [{"v": 1, "n": 2}])
        wait_until(lambda: engine.results("plain").column("x").to_pylist() == ["a", "b"])
        assert set(engine.metrics()["queries"]) == {"plain", "zipped"}
        assert engine.failure is None
    finally:
        engine.stop()


# -- the functions that the driver calls

COLUMNS = [("j", pa.string(), "`j`"), ("a", pa.int32(), "`a`")]


def _queries(selects: dict[str, str]) -> tuple[Packing, tuple[Any, ...]]:
    """Queries whose Catalyst expressions nobody has checked: each is said to be a STRING."""
    catalog = Catalog(lambda sql, schema: pa.string())
    catalog.execute("CREATE STREAM s (j STRING, a INT) USING json OPTIONS (path 'x')")
    queries = tuple(catalog.query(name, select) for name, select in selects.items())
    foreign = required_columns(queries)["s"].foreign
    computed = [(key, each.type, each.sql) for key, each in sorted(foreign.items())]
    return Packing({"s": COLUMNS}, computed={"s": computed}), queries


def _left(queries: tuple[Any, ...], failures: list[ExpressionFailure] | None) -> tuple[Any, ...]:
    gone = {failure.query for failure in failures or ()}
    return tuple(query for query in queries if query.name not in gone)


def test_a_lane_that_cannot_be_planned_fails_only_the_queries_that_are_the_reason(spark: Any, tmp_path: Path) -> None:
    arrive_parquet(tmp_path / "1.parquet", pa.table({"j": ["1", "x"], "a": pa.array([1, 0], pa.int32())}))
    packing, queries = _queries(
        {
            "good": "SELECT md5(j) AS h, a FROM s",
            "unknown": "SELECT nosuch(j) AS x FROM s",
            "mistaken": "SELECT md5(j, j) AS x FROM s",
            # Spark folds this constant when it plans, even where no row needs it.
            "huge": "SELECT md5(lpad(md5('x'), 2147483647, 'ab')) AS x FROM s WHERE a > 7",
            "guarded": "SELECT CASE WHEN a = 1 THEN to_binary(j, 'hex') END AS x FROM s",
        }
    )
    rows = spark.readStream.schema("j STRING, a INT").parquet(str(tmp_path)).selectExpr(*packing.select("s"))
    catalyst = CatalystColumns()
    with pytest.raises(Exception, match="UNRESOLVED_ROUTINE"):
        catalyst.complete(rows, packing, queries)
    failures = catalyst.plan_failures(rows, packing, queries)
    assert failures is not None
    said = {failure.query: failure.error for failure in failures}
    assert set(said) == {"unknown", "mistaken", "huge"}
    assert "UNRESOLVED_ROUTINE" in said["unknown"]
    assert "WRONG_NUM_ARGS" in said["mistaken"]
    assert "OutOfMemoryError" in said["huge"]
    left = _left(queries, failures)
    assert catalyst.plan_failures(rows, packing, left) is None

    # What raises on rows is found in a micro-batch; its guarded form then works in the stream itself.
    batch = spark.read.parquet(str(tmp_path)).selectExpr(*packing.select("s"))
    assert catalyst.find_failures(batch, packing, left) == []
    assert catalyst.find_failures(batch, packing, left) is None
    stream = catalyst.complete(rows, packing, left)
    assert stream.isStreaming
    writer = stream.writeStream.format("memory").queryName("completed").trigger(availableNow=True)
    writer.start().awaitTermination()
    found = spark.table("completed").count()
    assert found == 2


def test_a_plan_that_only_all_expressions_together_break_fails_the_last_query(spark: Any) -> None:
    packing, queries = _queries({f"q{n}": f"SELECT md5(concat(j, '{n}')) AS h FROM s" for n in range(9)})
    asked: list[int] = []

    def error(conditions: Any) -> Exception | None:
        asked.append(len(conditions))
        return RuntimeError("too large") if len(conditions) > 6 else None

    from headgate.spark.expression_failures import _by_key

    found = CatalystColumns()._failures_together(None, packing, _by_key(packing, queries), error)
    assert [failure.error for failure in found.values()] == ["too large (together with 6 other expressions)"]
    assert set(found) == {"q6"}
    assert len(asked) <= 5


def test_a_lost_executor_fails_no_query(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive_parquet(tmp_path / "1.parquet", pa.table({"j": ["x"], "a": pa.array([0], pa.int32())}))
    packing, queries = _queries({"bad": "SELECT to_binary(j, 'hex') AS x FROM s"})
    rows = spark.read.parquet(str(tmp_path)).selectExpr(*packing.select("s"))
    jobs: list[Any] = []

    def lost(frame: Any) -> Exception | None:
        jobs.append(frame)
        if len(jobs) > 1:
            raise JobLost("ExecutorLostFailure")
        return job_error(frame)

    monkeypatch.setattr("headgate.spark.expression_failures.job_error", lost)
    assert CatalystColumns().find_failures(rows, packing, queries) is None
    assert len(jobs) == 2
    monkeypatch.undo()
    found = CatalystColumns().find_failures(rows, packing, queries)
    assert found is not None
    assert [failure.query for failure in found] == ["bad"]


@pytest.mark.parametrize(
    "text",
    [
        "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
        "java.io.IOException: No space left on device",
        "Job 7 cancelled as part of cancellation of all jobs",
        "Job 12 cancelled because SparkContext was shut down",
    ],
)
def test_a_job_is_lost_for_reasons_outside_of_it(text: str) -> None:
    from pyspark.errors import PySparkException

    class Frame:
        @property
        def write(self) -> Any:
            raise PySparkException(text)

    with pytest.raises(JobLost):
        job_error(Frame())


def test_the_end_of_a_text_is_no_lost_worker() -> None:
    cause = "com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input"
    assert not EpochFailures.transient(RuntimeError(cause))
    assert EpochFailures.transient(RuntimeError("java.io.EOFException"))


STACK = "\n\tat org.apache.spark.X.y(X.scala:1)\n"
TASK = (
    "An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Job aborted due to stage failure:"
    " Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 3)"
    " (10.0.0.1 executor driver): "
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==\n1/0", "[DIVIDE_BY_ZERO] Division by zero"),
        ("\n[PARSE] No; line 1 pos 3\nx", "[PARSE] No"),
        ("[OLD] Different:\nno patterns.\nmore", "[OLD] Different: no patterns."),
        (TASK + "java.util.BadException: d != s" + STACK, "BadException: d != s"),
        (TASK + "java.lang.A: x" + STACK + "Caused by: org.b.C$D: y" + STACK, "D: y"),
        (TASK + "java.lang.A: x" + STACK + "Caused by: org.apache.spark.B: [C] d. SQLSTATE: 1" + STACK, "[C] d"),
        (
            "An error occurred while calling o1.x.\n: java.lang.OutOfMemoryError: Java heap space\n",
            "OutOfMemoryError: Java heap space",
        ),
        (": java.lang.StackOverflowError" + STACK, "StackOverflowError: the expression is nested too deeply"),
        ("", "Exception"),
        ("x" * 9999, "x" * LONGEST + "…"),
    ],
)
def test_the_reason_is_one_line(text: str, line: str) -> None:
    assert reason(Exception(text)) == line

"""Every sink that the checker accepts opens, writes and can be read back; every option of it has an effect."""

from __future__ import annotations

import datetime
import io
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

import headgate as hg
from headgate.connectors.console import ConsoleWriter
from headgate.connectors.kafka_sink import messages
from headgate.connectors.memory import MemoryWriter
from headgate.connectors.registry import connectors, open_sink, sinks
from headgate.connectors.spark_format import SparkFormatSink, missing
from headgate.graph.queries import Query
from headgate.spark.results import DriverWriter, ExecutorWriter, HostWriter, Results, SinkError, Writer
from headgate.sql import Catalog
from tests.arriving import arrive_json
from tests.connectors.declared import clause, query_into
from tests.connectors.publishing import outboxed, publish
from tests.connectors.recorder import Recorder

ROWS = [("a", "1"), ("b", 'x, "y" \\ z'), (None, "3"), ("a", ""), ("c/d=e", "ü"), ("b", "6")]
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.string())])
FOLDERS = sorted(
    name for name, sink in sinks().items() if name not in ("delta", "iceberg") and sink.options.find("path") is not None
)

W = TypeVar("W", bound=Writer)

called: list[pa.Table] = []


def note(table: pa.Table) -> None:
    """Called by `INTO callback`."""
    called.append(table)


def _table(rows: list[Any] = ROWS) -> pa.Table:
    return pa.table([pa.array(column, pa.string()) for column in zip(*rows, strict=True)], schema=SCHEMA)


def _multiset(rows: Any) -> Counter[str]:
    return Counter(repr(tuple(row.values()) if isinstance(row, dict) else tuple(row)) for row in rows)


def _opened(spark: Any, name: str, options: str, kind: type[W], **declared: str) -> W:
    query = query_into(name, options, **declared)
    writer = open_sink(spark, query, query.sinks[0], "run1")
    assert isinstance(writer, kind)
    return writer


def _lacks(spark: Any, name: str) -> bool:
    """Whether Spark comes without the connector."""
    try:
        spark.read.format(name).load()
    except Exception as error:
        return missing(error)
    return False


def _reader(spark: Any, name: str) -> Any:
    """Spark's reader. By default it reads an empty CSV value as null, quoted or not."""
    return spark.read.format(name).option("nullValue", "NULL")


def _in_memory(writer: Writer, capsys: Any) -> list[Any]:
    del capsys
    assert isinstance(writer, MemoryWriter)
    return writer.table().to_pylist()


def _printed(writer: Writer, capsys: Any) -> list[Any]:
    del writer
    lines = capsys.readouterr().out.splitlines()
    texts = [line.removeprefix("q: k=").split(" v=", 1) for line in lines]
    return [(None if k == "NULL" else k, v) for k, v in texts]


def _discarded(writer: Writer, capsys: Any) -> None:
    del writer, capsys


# Sinks without a folder: how what they wrote is read back.
READ_BACK: dict[str, Callable[[Writer, Any], list[Any] | None]] = {
    "memory": _in_memory,
    "console": _printed,
    "noop": _discarded,
}


ELSEWHERE = {"kafka": "tests/kafka", "postgresql": "tests/postgresql", "table": "test_tables_of_the_catalog"}
"""Sinks that need a server or the catalog, and their tests."""


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(sinks()))
def test_every_sink_writes_each_epoch_as_it_guarantees(spark: Any, tmp_path: Path, name: str, capsys: Any) -> None:
    sink = sinks()[name]
    options = f"OPTIONS ({sink.example.format(folder=tmp_path / 'out')})" if sink.example else ""
    query = query_into(name, options)
    if name in ELSEWHERE:
        pytest.skip(f"{ELSEWHERE[name]} does it")
    if name in ("delta", "iceberg") and _lacks(spark, name):
        pytest.skip(f"make {name} does it: tests/{name}/test_sink.py")
    writer = open_sink(spark, query, query.sinks[0], "run1")
    first, second = _table(ROWS[:4]), _table(ROWS[4:])
    for epoch, table in ((0, first), (1, second), (1, second)):
        publish(writer, query, epoch, table, tmp_path / "ck")
    writer.close()
    if name == "callback":
        return  # its example counts rows; test_callback_by_name looks at them
    if "path" in query.sinks[0].options:
        reader = _reader(spark, name)
        frame = (
            (reader.schema("v STRING, k STRING") if name == "json" else reader)
            .load(str(tmp_path / "out"))
            .toDF("v", "k")
            .select("k", "v")
        )
        found: list[Any] | None = [tuple(row) for row in frame.collect()]
    else:
        assert name in READ_BACK, f"say in READ_BACK how to read what {name} has written"
        found = READ_BACK[name](writer, capsys)
    if found is not None:
        wanted = _multiset(ROWS)
        assert _multiset(found) - wanted == (Counter() if sink.guarantee.exactly_once else _multiset(ROWS[4:]))
        assert not wanted - _multiset(found)


def test_callback_by_name() -> None:
    called.clear()
    writer = _opened(None, "callback", "OPTIONS (function 'tests.connectors.test_sinks:note')", DriverWriter)
    deleted = pa.chunked_array([[False] * 5 + [True]])
    writer.publish(Results("q", 0, _table()))
    writer.publish(Results("q", 1, _table(), _table().select(["k"]), deleted))
    assert [table.column_names for table in called] == [["k", "v"], ["k", "v", "deleted"]]
    assert _multiset(called[0].to_pylist()) == _multiset(ROWS)


# -- options -----------------------------------------------------------------------------------------------------------


OTHER_VALUES = {
    "partitionBy": "v",
    "maxRecordsPerFile": "1",
    "ignoreNullFields": "false",
    "lineSep": "|\n",
    "sep": "::",
    "delimiter": ";",
    "header": "true",
    "quote": "~",
    "escape": '"',
    "quoteAll": "true",
    "nullValue": "NULL",
    "emptyValue": "EMPTY",
}


@pytest.mark.parametrize(
    ("name", "option"),
    [(name, option.name) for name in FOLDERS for option in sinks()[name].options.declared if option.name != "path"],
)
def test_every_option_of_a_folder_changes_what_is_written(tmp_path: Path, name: str, option: str) -> None:
    declared = sinks()[name].options.find(option)
    assert declared is not None
    by_default = tmp_path / "default"
    with_nulls = {"columns": "k STRING, v STRING, w STRING"}

    def written(folder: Path, options: dict[str, str]) -> dict[str, bytes]:
        columns = with_nulls if name in ("json", "csv") else {}
        writer = _opened(
            None, name, clause({"path": str(folder), "partitionBy": "k", **options}), HostWriter, **columns
        )
        table = _table().append_column("w", pa.nulls(len(ROWS), pa.string())) if columns else _table()
        writer.publish(Results("q", 0, table))
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    if name == "text" and option == "partitionBy":
        return  # a query with two columns has no other way; test_every_sink reads its partitions back
    plain = written(by_default, {})
    values = [v for v in declared.choices if v != declared.default] or [OTHER_VALUES[option]]
    for value in values:
        found = written(tmp_path / value.replace("/", "_"), {option: value})
        if declared.default == "none" and value == "uncompressed":
            assert found == plain
        else:
            assert found != plain, f"{option} {value} changes nothing"


@pytest.mark.spark
@pytest.mark.parametrize("name", FOLDERS)
def test_spark_reads_every_compression(spark: Any, tmp_path: Path, name: str) -> None:
    compression = sinks()[name].options.find("compression")
    assert compression is not None
    for value in compression.choices:
        options = clause({"path": str(tmp_path / value), "compression": value})
        writer = _opened(spark, name, options, HostWriter, columns="v STRING")
        writer.publish(Results("q", 0, _table().select(["v"])))
    schema = "value STRING" if name == "text" else "v STRING"
    found = _reader(spark, name).schema(schema).load([f"{tmp_path}/{value}" for value in compression.choices])
    assert _multiset(found.collect()) == _multiset([(v,) for _, v in ROWS] * len(compression.choices))


TYPED = pa.table(
    {
        "flag": pa.array([True, False, None]),
        "tiny": pa.array([-128, 127, None], pa.int8()),
        "big": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
        "real": pa.array([1.5, float("inf"), None], pa.float32()),
        "number": pa.array([0.1, float("nan"), None]),
        "large": pa.array([1e300, -float("inf"), None]),
        "exact": pa.array([Decimal("-1234567890123456789012345678.0123456789"), Decimal("0.5000000000"), None]).cast(
            pa.decimal128(38, 10)
        ),
        "word": pa.array(['a,b "c" \\', "\\", None]),
        "letters": pa.array(["ü—日本 ", "", None]),
        "day": pa.array([datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), None]),
        "ts": pa.array([1_700_000_000_123_456, 1_700_000_000_000_000, None], pa.timestamp("us", "UTC")),
        "wall": pa.array([1_700_000_000_120_000, 0, None], pa.timestamp("us")),
        "bits": pa.array([b"\x00\xff", b"", None], pa.binary()),
        "items": pa.array([[1, None], [], None], pa.list_(pa.int32())),
        "pairs": pa.array([[("k", 1.5), ("l", None)], [], None], pa.map_(pa.string(), pa.float64())),
        "inner": pa.array(
            [{"a": Decimal("1.50"), "b": ["x"]}, {"a": None, "b": None}, None],
            pa.struct([("a", pa.decimal128(5, 2)), ("b", pa.list_(pa.string()))]),
        ),
    }
)
FLAT = ["flag", "tiny", "big", "real", "number", "large", "exact", "word", "letters", "day", "ts", "wall"]


@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name in FOLDERS if name != "text"])
def test_spark_reads_every_type_as_it_was_written(spark: Any, tmp_path: Path, name: str) -> None:
    table = TYPED.select(FLAT) if name == "csv" else TYPED
    frame = spark.createDataFrame(table)
    ddl = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in frame.schema.fields)
    options = {"path": str(tmp_path / "out")} | ({"nullValue": "NULL"} if name == "csv" else {})
    writer = _opened(spark, name, clause(options), HostWriter, columns=ddl)
    writer.publish(Results("q", 0, table))
    found = _reader(spark, name).schema(ddl).load(str(tmp_path / "out"))
    assert _multiset(found.collect()) == _multiset(frame.collect())


@pytest.mark.spark
def test_partitions_are_those_that_spark_writes(spark: Any, tmp_path: Path) -> None:
    table = pa.table(
        {
            "s": ["a", "x/y=z", "", None, "a"],
            "n": pa.array([1, -2, 3, None, 1], pa.int16()),
            "d": pa.array([19723, None, -1, 19723, 19723], pa.date32()),
            "b": [True, False, None, True, True],
            "v": [1, 2, 3, 4, 5],
        }
    )
    columns = "s STRING, n SMALLINT, d DATE, b BOOLEAN, v BIGINT"
    options = clause({"path": str(tmp_path / "ours"), "partitionBy": "S, n, d, b"})
    _opened(spark, "parquet", options, HostWriter, columns=columns).publish(Results("q", 0, table))
    frame = spark.createDataFrame(table)
    frame.write.partitionBy("s", "n", "d", "b").parquet(str(tmp_path / "theirs"))

    def folders(root: Path) -> set[str]:
        return {str(p.parent.relative_to(root)) for p in root.rglob("*.parquet")}

    assert folders(tmp_path / "ours") == folders(tmp_path / "theirs")
    both = [spark.read.schema(columns).parquet(str(tmp_path / side)).collect() for side in ("ours", "theirs")]
    assert _multiset(both[0]) == _multiset(both[1])


def test_console_shortens_rows_and_values() -> None:
    out = io.StringIO()
    ConsoleWriter("q", 2, 5, out).publish(Results("q", 0, _table([("a", "123456"), ("b", "12345"), ("c", "")])))
    assert out.getvalue() == "q: k=a v=1234…\nq: k=b v=12345\nq: … 1 more\n"


@pytest.mark.parametrize(("truncate", "shown"), [("true", 20), ("false", 30), ("7", 7)])
def test_console_options(capsys: Any, truncate: str, shown: int) -> None:
    writer = _opened(None, "console", f"OPTIONS (numRows '1', truncate '{truncate}')", DriverWriter)
    writer.publish(Results("q", 0, _table([("a", "x" * 30), ("b", "")])))
    line, more = capsys.readouterr().out.splitlines()
    assert len(line.removeprefix("q: k=a v=")) == shown
    assert more == "q: … 1 more"


# -- sinks that Spark writes -------------------------------------------------------------------------------------------


def _update() -> Query:
    """Counts by a key that is no column of the result."""
    catalog = Catalog(connectors=connectors())
    catalog.execute("CREATE STREAM s (k STRING, v STRING) USING rate")
    catalog.execute("CREATE QUERY q INTO noop AS SELECT count(*) AS n FROM s GROUP BY k, length(v)")
    return catalog.queries["q"]


def test_what_the_delta_writer_is_given(tmp_path: Path) -> None:
    recorder = Recorder()
    options = "OPTIONS (path 'there', partitionBy 'k', mergeSchema 'TRUE', other 'x')"
    query = query_into("delta", options)
    _opened(recorder, "delta", options, ExecutorWriter).publish(outboxed(tmp_path, query, 7, _table()))
    assert recorder.given == {"mergeSchema": "true", "other": "x", "txnAppId": "headgate-run1-q", "txnVersion": "7"}
    assert (recorder.mode_, recorder.partitioned, recorder.saved) == ("append", ("k",), "there")
    writer = _opened(recorder, "delta", "OPTIONS (table 'names')", ExecutorWriter)
    writer.publish(outboxed(tmp_path, query, 8, _table()))
    assert recorder.saved == "names"


def test_what_the_kafka_writer_is_given(tmp_path: Path) -> None:
    recorder = Recorder()
    # A setting of Kafka's Java client: Spark writes.
    options = "OPTIONS (topic 't', kafka.bootstrap.servers 'h:1', kafka.x.y 'all', Value_Format 'CSV', key 'K')"
    rows = outboxed(tmp_path, query_into("kafka", options), 0, _table())
    _opened(recorder, "kafka", options, ExecutorWriter).publish(rows)
    assert recorder.format_ == "kafka"
    assert recorder.given == {"kafka.bootstrap.servers": "h:1", "kafka.x.y": "all"}
    times = "yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSXXX"
    assert recorder.selected == (
        f"CAST(to_csv(struct(`k`, `v`), map('timestampFormat', '{times}')) AS BINARY) AS value",
        "CAST(CAST(`k` AS STRING) AS BINARY) AS key",
        "'t' AS topic",
    )


@pytest.mark.spark
def test_messages_of_kafka(spark: Any, tmp_path: Path) -> None:
    def sent(query: Query, table: pa.Table, key: str | None, form: str) -> list[dict[str, Any]]:
        rows = outboxed(tmp_path, query, 0, table)
        options = {"topic": "t", "value_format": form} | ({} if key is None else {"key": key})
        found = [row.asDict() for row in rows.frame(spark).selectExpr(*messages(rows, options)).collect()]
        assert {row.pop("topic") for row in found} == {"t"}
        return [{k: v if v is None else bytes(v).decode() for k, v in row.items()} for row in found]

    plain = query_into("noop", "")
    assert sent(plain, _table(ROWS[:2]), None, "json") == [
        {"value": '{"k":"a","v":"1"}'},
        {"value": '{"k":"b","v":"x, \\"y\\" \\\\ z"}'},
    ]
    assert sent(plain, _table(ROWS[:2]), "K", "csv")[0] == {"value": "a,1", "key": "a"}
    table = pa.table({"n": [5, 6], "k": ["a", "b"], "l": pa.array([1, 2], pa.int32()), "deleted": [False, True]})
    assert sent(_update(), table, None, "json") == [
        {"value": '{"n":5}', "key": '["a","1"]'},
        {"value": None, "key": '["b","2"]'},
    ]
    assert sent(_update(), table, "n", "json")[0] == {"value": '{"n":5}', "key": "5"}
    text = query_into("noop", "", select="v")
    assert sent(text, _table().select(["v"]), None, "text")[0] == {"value": "1"}
    raw = query_into("noop", "", select="k AS key, v AS value")
    assert sent(raw, _table().rename_columns(["key", "value"]), None, "raw")[0] == {"key": "a", "value": "1"}


@pytest.mark.spark
def test_tasks_read_every_type_from_the_outbox(spark: Any, tmp_path: Path) -> None:
    whole = spark.createDataFrame(TYPED)
    ddl = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in whole.schema.fields)
    rows = outboxed(tmp_path, query_into("noop", "", columns=ddl), 0, TYPED.slice(0, 2), TYPED.slice(2))
    found = rows.frame(spark)
    assert found.schema == whole.schema
    assert found.rdd.getNumPartitions() == 2
    assert _multiset(found.collect()) == _multiset(whole.collect())


@pytest.mark.spark
@pytest.mark.slow
def test_tables_of_the_catalog(spark: Any, tmp_path: Path) -> None:
    table = "headgate_rows"
    spark.sql(f"DROP TABLE IF EXISTS {table}")
    options = clause({"table": table, "partitionBy": "k"})
    query = query_into("table", options)
    try:
        for run in ("run1", "run2"):
            writer = open_sink(spark, query, query.sinks[0], run)
            assert isinstance(writer, ExecutorWriter)
            for epoch, rows in ((0, ROWS[:3]), (1, ROWS[3:]), (1, ROWS[3:])):
                writer.publish(outboxed(tmp_path / run, query, epoch, _table(rows)))
        assert _multiset(spark.table(table).select("k", "v").collect()) == _multiset(ROWS * 2)
        other = query_into("table", clause({"table": table}), columns="k STRING, w STRING")
        with pytest.raises(SinkError, match=f"^query q: sink table: table {table}: it has no column w; it has v, head"):
            open_sink(spark, other, other.sinks[0], "run1")
    finally:
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.spark
def test_other_formats_of_spark(spark: Any, tmp_path: Path) -> None:
    options = clause({"path": str(tmp_path / "out"), "rowTag": "row", "partitionBy": "k"})
    writer = _opened(spark, "xml", options, ExecutorWriter)
    query = query_into("xml", options)
    for epoch, rows in ((0, ROWS[:3]), (1, ROWS[3:]), (1, ROWS[3:])):
        writer.publish(outboxed(tmp_path / "ck", query, epoch, _table(rows)))
    found = spark.read.format("xml").option("rowTag", "row").schema("v STRING").load(str(tmp_path / "out"))
    assert found.count() == len(ROWS)
    assert {"k", "epoch"} <= set(found.columns)
    # Another query, and another run, write beside it.
    for name, run in (("p", "run"), ("q", "other")):
        beside = replace(query, name=name)
        other = open_sink(spark, beside, beside.sinks[0], run)
        assert isinstance(other, ExecutorWriter)
        other.publish(outboxed(tmp_path / f"ck-{name}-{run}", beside, 0, _table(ROWS[:1])))
    folders = sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir())
    assert [folder.partition("=")[2] for folder in folders] == [
        "other-q-000000000",
        "run-p-000000000",
        "run1-q-000000000",
        "run1-q-000000001",
    ]
    with pytest.raises(SinkError, match=r"^query q: sink nosuch: Failed to find the data source: nosuch"):
        _opened(spark, "nosuch", "OPTIONS (path 'x')", ExecutorWriter)
    with pytest.raises(SinkError, match=r"^query q: sink jdbc: .*url"):
        _opened(spark, "jdbc", "", ExecutorWriter).publish(outboxed(tmp_path / "ck", query, 0, _table()))
    assert SparkFormatSink("xml").options.others


@pytest.mark.spark
def test_sinks_of_a_script(spark: Any, tmp_path: Path) -> None:
    called.clear()
    arrive_json(tmp_path / "in" / "a.json", [{"k": k, "v": v} for k, v in ROWS])
    engine = hg.Engine("cqc", str(tmp_path / "ck"), spark=spark)
    engine.execute(
        f"""CREATE STREAM s (k STRING, v STRING) USING JSON OPTIONS (PATH '{tmp_path}/in');
        CREATE QUERY few INTO MEMORY OPTIONS (Rows '2') INTO noop AS SELECT * FROM s;
        CREATE QUERY all_ INTO callback OPTIONS (function 'tests.connectors.test_sinks:note')
        INTO PARQUET OPTIONS (Path '{tmp_path}/out', PartitionBy 'K') AS SELECT * FROM s;
        CREATE QUERY counts INTO noop INTO memory AS SELECT k, count(*) AS n FROM s GROUP BY k"""
    )
    engine.run_once()
    assert engine.results("few").num_rows == 2
    assert _multiset(row for table in called for row in table.to_pylist()) == _multiset(ROWS)
    found = spark.read.parquet(f"{tmp_path}/out").select("k", "v")
    assert _multiset(found.collect()) == _multiset(ROWS)
    assert {row["k"]: row["n"] for row in engine.results("counts").to_pylist()} == Counter(k for k, _ in ROWS)


def test_memory_ignores_an_epoch_that_it_has() -> None:
    writer = MemoryWriter(SCHEMA, 100)
    for run, epoch in (("a", 0), ("a", 0), ("b", 0), ("b", 1), ("b", 1)):
        writer.follow(run)
        writer.publish(Results("q", epoch, _table(ROWS[:1])))
    assert writer.table().num_rows == 3


def test_memory_keeps_the_keys_that_changed_last() -> None:
    writer = MemoryWriter(pa.schema([("n", pa.int64())]), 2)

    def change(epoch: int, keys: str, deleted: list[bool]) -> list[int]:
        values = pa.table({"n": [10 * epoch + number for number in range(len(keys))]})
        writer.publish(Results("q", epoch, values, pa.table({"k": list(keys)}), pa.chunked_array([deleted])))
        found: list[int] = writer.table()["n"].to_pylist()
        return found

    assert change(0, "abc", [False] * 3) == [1, 2]
    assert change(1, "ba", [False, True]) == [2, 10]
    assert change(2, "c", [True]) == [10]
    assert len(writer._current) == 1
    # More rows than are kept: the last row of a key counts, and a deleted key takes no place.
    assert change(3, "aabdca", [False, False, False, True, False, False]) == [34, 35]
    assert change(4, "d" * 20_000, [False] * 20_000) == [35, 20_039]

"""Every source and table opens with each of its options; the options reach Spark's reader; rows are read as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.connectors.contract import Connector
from headgate.connectors.registry import SparkStreams, open_table, sources, tables
from headgate.connectors.source_folder import folder_of
from headgate.graph.options import OptionDeclaration
from headgate.graph.queries import Stream
from headgate.spark.source_rows import SourceError, SourceRows
from headgate.sql import Catalog
from tests.connectors.declared import clause, stream_of
from tests.connectors.recorder import Recorder

ROWS = [("a", "1"), (None, "2"), ("b", None)]
COLUMNS = {"text": "value STRING", "rate": "timestamp TIMESTAMP, value BIGINT", "socket": "k STRING, v STRING"}
COLUMNS["rate-micro-batch"] = COLUMNS["rate"]
# Options that our own code uses up; those of one group exclude each other.
OURS = {"value_format", "avro_schema", "avro_framing", "avro_schema_id", "dead_letter_topic"}
OURS |= {f"{column}_column" for column in ("key", "timestamp", "topic", "partition", "offset", "headers")}
EXCLUSIVE = (
    {"subscribe", "subscribePattern", "assign"},
    {"maxFilesPerTrigger", "maxBytesPerTrigger"},
    {"sep", "delimiter"},
    {"path", "table"},
    {"startingVersion", "startingTimestamp"},
)


def _value(option: OptionDeclaration) -> str:
    """A value that is allowed."""
    if option.name == "cleanSource":
        return "off"
    if option.choices:
        return option.choices[0]
    if option.default not in (None, ""):
        return str(option.default)
    plausible = {"integer": "1000", "boolean": "false", "time": "7d", "character": ""}
    named = {
        "delimiter": ",",
        "lineSep": "\n",
        "timeZone": "UTC",
        "locale": "en-US",
        "encoding": "UTF-8",
        "host": "localhost",
    }
    return plausible.get(option.kind) or named.get(option.name, "x")


def _settings(connector: Connector) -> list[dict[str, str]]:
    """Every declared option, in as few sets as those that exclude each other allow."""
    values = {option.name: _value(option) for option in connector.options.declared if option.name != "sourceArchiveDir"}
    values |= {group[0]: "h:1" for group in connector.options.one_of if group == ("kafka.bootstrap.servers",)}
    most = max(len(group & set(values)) for group in EXCLUSIVE)
    found = []
    for turn in range(max(most, 1)):
        chosen = dict(values)
        for group in EXCLUSIVE:
            members = sorted(group & set(values))
            for member in members[:turn] + members[turn + 1 :] if turn < len(members) else members[1:]:
                del chosen[member]
        found.append(chosen)
    return found


@pytest.mark.parametrize("name", sorted(sources()))
def test_every_option_reaches_the_reader(name: str) -> None:
    reached: set[str] = set()
    columns = COLUMNS.get(name, "k STRING, v STRING")
    for options in _settings(sources()[name]):
        for ours in OURS:
            options.pop(ours, None)
        if name == "iceberg" and "path" in options:
            # In the JVM a folder becomes a table of a catalog: tests/iceberg reads folders.
            options["table"] = options.pop("path")
        own = columns.split(", ") if name != "socket" else ["value STRING"]
        recorder = Recorder(tuple(column.split()[0] for column in own))
        stream = stream_of(name, clause(options), ", ".join(own))
        SparkStreams(recorder).open([stream])
        assert recorder.format_ == name
        assert {key: recorder.given[key] for key in options} == options
        reached |= set(recorder.given)
    declared = set(sources()[name].options.names) - OURS - {"sourceArchiveDir"}
    declared -= {"path"} if name == "iceberg" else set()
    assert declared <= reached


def test_an_archive_needs_its_folder() -> None:
    recorder = Recorder(("k", "v"))
    options = {"path": "in", "cleanSource": "Archive", "sourceArchiveDir": "old"}
    SparkStreams(recorder).open([stream_of("json", clause(options), "k STRING, v STRING")])
    assert (recorder.given["cleanSource"], recorder.given["sourceArchiveDir"]) == ("archive", "old")


def _written(spark: Any, name: str, folder: Path) -> None:
    frame = spark.createDataFrame(ROWS, "k STRING, v STRING").coalesce(1)
    if name == "text":
        frame = frame.selectExpr("coalesce(v, k) AS value")
    frame.write.format(name).mode("overwrite").save(str(folder))


def _collected(spark: Any, rows: SourceRows, folder: Path) -> list[Any]:
    """All rows of a streaming DataFrame that are available now."""
    found: list[Any] = []
    writer = rows.frame.writeStream.option("checkpointLocation", str(folder)).trigger(availableNow=True)
    query = writer.foreachBatch(lambda frame, _: found.extend(frame.collect())).start()
    query.awaitTermination()
    return found


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(name for name in sources() if sources()[name].together == "path"))
def test_spark_takes_every_option_of_files_and_reads_them(spark: Any, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    _written(spark, name, folder)
    columns = COLUMNS.get(name, "k STRING, v STRING")
    wanted = sorted(spark.read.format(name).schema(columns).load(str(folder)).collect(), key=repr)
    for number, options in enumerate(_settings(sources()[name])):
        chosen = options | {"path": str(folder), "pathGlobFilter": "part-*"}
        rows = SparkStreams(spark).open([stream_of(name, clause(chosen), columns)])
        found = _collected(spark, rows, tmp_path / f"log{number}")
        assert sorted((row[: len(wanted[0])] for row in found), key=repr) == [tuple(row) for row in wanted]
    catalog = Catalog()
    chosen = {option.name: _value(option) for option in tables()[name].options.declared if option.name != "delimiter"}
    chosen |= {"path": str(folder), "pathGlobFilter": "part-*", "modifiedAfter": "2020-01-01T00:00:00"}
    chosen |= {"modifiedBefore": "2100-01-01T00:00:00"}
    catalog.execute(f"CREATE TABLE t ({columns}) USING {name} {clause(chosen)}")
    assert sorted(open_table(spark, catalog.tables["t"]).collect(), key=repr) == wanted


@pytest.mark.spark
def test_sources_that_generate_or_wait_open(spark: Any) -> None:
    for name in ("rate", "rate-micro-batch"):
        stream = stream_of(name, f"OPTIONS ({sources()[name].example})", COLUMNS[name])
        assert SparkStreams(spark).open([stream]).frame.isStreaming
    for form, columns in (("text", "line STRING"), ("raw", "value STRING"), ("JSON", "k INT"), ("csv", "k INT")):
        options = f"OPTIONS (host 'localhost', port '1', value_format '{form}')"
        frame = SparkStreams(spark).open([stream_of("socket", options, columns)]).frame
        assert columns.split()[0] in frame.columns
    with pytest.raises(SourceError, match=r"stream s: source socket gives no column k; it gives value \(or add value_"):
        SparkStreams(spark).open([stream_of("socket", "OPTIONS (host 'localhost', port '1')", "k INT")])
    with pytest.raises(SourceError, match=r"^stream s: source nosuch: Failed to find the data source: nosuch"):
        SparkStreams(spark).open([stream_of("nosuch", "OPTIONS (path 'x')", "k INT")])


@pytest.mark.spark
@pytest.mark.parametrize(("mode", "left"), [("PERMISSIVE", 3), ("DROPMALFORMED", 2)])
def test_what_becomes_of_malformed_rows(spark: Any, tmp_path: Path, mode: str, left: int) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"k": 1}\n{bad\n{"k": 2}\n')
    stream = stream_of("json", clause({"path": str(tmp_path / "in"), "mode": mode}), "k INT")
    rows = SparkStreams(spark).open([stream])
    assert rows.flaw is not None
    found = _collected(spark, rows, tmp_path / "log")
    assert len(found) == left
    assert [row[1] for row in found if row[1] is not None] == ["{bad"] * (left - 2)


FOLDERS = [
    ("/data/in", "/data/in", True),
    ("/data/in", "file:///data//in/", True),
    ("/data/in", "/data/in/b", True),
    ("/data/in", "/data/inner", False),
    ("/x/data", "/y/x/data", False),
    ("s3a://bucket/a", "s3a://bucket/a/", True),
    ("s3a://bucket/a", "s3a://bucket/b", False),
]


@pytest.mark.parametrize(("one", "other", "common"), FOLDERS)
def test_folders_that_may_have_files_in_common(one: str, other: str, common: bool) -> None:
    streams = [stream_of("json", clause({"path": path}), "k STRING") for path in (one, other)]
    opener = SparkStreams(Recorder())
    assert opener.overlap(*streams) == opener.overlap(*reversed(streams)) == common


def test_folders_that_are_never_read_together(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    places = ["/data/in", "s3a://one/in", "s3a://two/in", "hdfs:/in", str(tmp_path / "file"), "/data/*", r"/data/a\b"]
    opener = SparkStreams(Recorder())
    streams = [stream_of("json", clause({"path": path}), "k STRING") for path in places]
    keys = [opener.group_key(stream) for stream in streams]
    assert keys[4:] == [None] * 3
    assert len(set(keys[:4])) == 4


def test_the_test_for_a_folder() -> None:
    tests = {path: folder_of(path).test(False) for path in ("/a b", "file:///a", "s3a://b/a", "hdfs:///a", "dbfs:/a")}
    anywhere = "startswith(regexp_replace(_metadata.file_path, '^[^:/]+:(//[^/]*)?', ''), '{}')"
    here = "(startswith(_metadata.file_path, 'file:{0}') OR startswith(_metadata.file_path, 'file://{0}'))"
    assert tests == {
        "/a b": anywhere.format("/a%20b/"),
        "file:///a": here.format("/a/"),
        "s3a://b/a": "startswith(_metadata.file_path, 's3a://b/a/')",
        "hdfs:///a": anywhere.format("/a/"),
        "dbfs:/a": anywhere.format("/a/"),
    }
    assert folder_of("/a b").test(True) == here.format("/a%20b/")


def test_topics_are_read_together() -> None:
    topics = [
        Stream(name, stream_of("rate", "", "value STRING").schema, None, 0, "kafka", {"subscribe": name, "x": "1"})
        for name in ("one ", "it's", "one")
    ]
    opener = SparkStreams(Recorder(("value", "topic")))
    assert opener.group_key(topics[0]) == opener.group_key(topics[1]) is not None
    assert opener.overlap(topics[0], topics[2])
    assert not opener.overlap(topics[0], topics[1])
    rows = opener.open(topics[:2])
    assert rows.frame.given["subscribe"] == "one,it's"
    assert (
        rows.frame.selected[1] == "CASE WHEN topic = 'one' THEN 0 WHEN topic = 'it\\'s' THEN 1 END AS _headgate_member"
    )

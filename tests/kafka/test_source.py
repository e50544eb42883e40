"""Topics as streams: formats of values, Kafka's own columns, which topics and from where, malformed values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.spark.packages import AVRO as AVRO_PACKAGE
from headgate.spark.packages import provide
from tests.kafka.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.slow]

AVRO = {
    "type": "record",
    "name": "Reading",
    "fields": [{"name": "k", "type": ["null", "string"]}, {"name": "v", "type": "int"}],
}
ROWS = [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": None, "v": 3}]


def _engine(spark: Any, tmp_path: Path) -> hg.Engine:
    return hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)


def _rows(engine: hg.Engine, query: str) -> list[dict[str, Any]]:
    return sorted(engine.results(query).to_pylist(), key=lambda row: repr(sorted(row.items())))


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


def _dead(engine: hg.Engine) -> list[tuple[str, str]]:
    files = sorted(Path(engine.dead_letters).glob("*.json"))
    letters = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted((row["stream"], row["row"]) for row in letters)


def _avro(spark: Any, rows: list[dict[str, Any]], framed: bool) -> list[bytes]:
    """Values as another program writes them: encoded by Spark."""
    provide(spark, AVRO_PACKAGE)
    frame = spark.createDataFrame([(row["k"], row["v"]) for row in rows], "k STRING, v INT")
    made = frame.selectExpr(f"to_avro(struct(k, v), '{json.dumps(AVRO)}') AS b").collect()
    return [(b"\0\0\0\0\7" if framed else b"") + bytes(row.b) for row in made]


def test_formats_of_values(spark: Any, tmp_path: Path, topics: Topics) -> None:
    topics.send("json", [*ROWS, "{bad", "", {"k": "c", "v": "?"}])
    topics.send("csv", ["a,1", "b,2", ",3", "c,x"])
    topics.send("text", ["one", "two"])
    topics.send("avro", [*_avro(spark, ROWS, False), b"\x02"])
    bad = [b"\x01\0\0\0\7\0", b"\0\0\0\0\7", *_avro(spark, ROWS[:1], False)]
    topics.send("registry", [*_avro(spark, ROWS, True), *bad])
    engine = _engine(spark, tmp_path)
    for form in ("json", "csv", "avro", "registry", "text", "raw"):
        extra = {"value_format": form} if form != "registry" else {"value_format": "avro", "avro_framing": "registry"}
        if extra["value_format"] == "avro":
            extra["avro_schema"] = json.dumps(AVRO)
        topic = topics.name("json" if form == "raw" else form)
        options = topics.options(subscribe=topic, startingOffsets="earliest", **extra)
        columns = {"text": "line STRING", "raw": "value BINARY, offset BIGINT"}.get(form, "k STRING, v INT")
        engine.execute(f"CREATE STREAM s_{form} ({columns}) USING kafka {options}")
        engine.query(f"q_{form}", f"SELECT * FROM s_{form}")
        engine.query(f"n_{form}", f"SELECT count(*) AS n FROM s_{form}")
    engine.run_once()
    # An empty value is no object: Spark's from_json gives null, and so do the columns.
    assert _rows(engine, "q_json") == _sorted([*ROWS, {"k": None, "v": None}])
    assert _rows(engine, "q_csv") == _rows(engine, "q_avro") == _rows(engine, "q_registry") == _sorted(ROWS)
    assert _rows(engine, "q_text") == [{"line": "one"}, {"line": "two"}]
    assert [row["offset"] for row in _rows(engine, "q_raw")] == list(range(6))
    counted = {form: engine.results(f"n_{form}").to_pylist()[0]["n"] for form in ("json", "avro", "text", "raw")}
    assert counted == {"json": 4, "avro": 3, "text": 2, "raw": 6}
    assert engine.metrics()["dead_letters"] == {"s_json": 2, "s_csv": 1, "s_avro": 1, "s_registry": 3}
    assert ("s_json", "{bad") in _dead(engine)
    assert ("s_avro", "Ag==") in _dead(engine)


def test_columns_of_kafka_beside_those_of_the_value(spark: Any, tmp_path: Path, topics: Topics) -> None:
    at = 1714979289000
    topics.send("in", ROWS, lambda n: {"key": str(n * 7), "timestamp": at, "headers": {"h": b"x"}})
    columns = "id INT, k STRING, at TIMESTAMP, v INT, part INT, place BIGINT, name STRING,"
    columns += " heads ARRAY<STRUCT<key: STRING, value: BINARY>>"
    options = topics.options(
        subscribe=topics.name("in"),
        startingOffsets="earliest",
        value_format="json",
        key_column="id",
        timestamp_column="at",
        partition_column="part",
        offset_column="place",
        topic_column="name",
        headers_column="heads",
    )
    engine = _engine(spark, tmp_path)
    engine.execute(f"CREATE STREAM s ({columns}) USING kafka {options}")
    engine.query("q", "SELECT id, k, v, CAST(at AS STRING) AS at, part, place, name, heads[0].key AS h FROM s")
    engine.run_once()
    same = {"at": "2024-05-06 07:08:09", "part": 0, "name": topics.name("in"), "h": "h"}
    assert engine.results("q").to_pylist() == [
        {"id": n * 7, "k": row["k"], "v": row["v"], "place": n, **same} for n, row in enumerate(ROWS)
    ]


def test_malformed_values_go_to_a_topic(spark: Any, tmp_path: Path, topics: Topics) -> None:
    broken = _avro(spark, ROWS, True)[0][:-1]
    topics.send("json", [*ROWS, "{bad"])
    topics.send("avro", [*_avro(spark, ROWS, True), broken])
    engine = _engine(spark, tmp_path)
    for form, more in (("json", {}), ("avro", {"avro_framing": "registry", "avro_schema": json.dumps(AVRO)})):
        options = topics.options(
            subscribe=topics.name(form),
            startingOffsets="earliest",
            value_format=form,
            dead_letter_topic=topics.name("dead"),
            **more,
        )
        engine.execute(f"CREATE STREAM s_{form} (k STRING, v INT) USING kafka {options}")
        engine.query(f"q_{form}", f"SELECT k, v FROM s_{form}")
    engine.run_once()
    letters = {m.headers["stream"]: (m.data, m.headers["reason"]) for m in topics.read("dead")}
    assert {stream: data for stream, (data, _) in letters.items()} == {"s_json": b"{bad", "s_avro": broken}
    assert all(reason for _, reason in letters.values())
    assert len(_dead(engine)) == 2, "they are in the folder as well"


def test_which_topics_and_from_where(spark: Any, tmp_path: Path, topics: Topics) -> None:
    one, two = topics.make("one", 2), topics.make("two")
    for topic in ("one", "two"):
        topics.send(topic, [{"v": n} for n in range(4)], lambda n: {"partition": 0, "timestamp": (1000 + n) * 1000})
    topics.send("one", [{"v": n} for n in range(10, 12)], lambda n: {"partition": 1, "timestamp": 2_000_000})
    start = {
        "all_one": {"subscribe": one, "startingOffsets": "earliest"},
        "all_two": {"subscribe": two, "startingOffsets": "earliest"},
        "pattern": {"subscribePattern": f"{one[:-4]}.*", "startingOffsets": "earliest"},
        "assigned": {"assign": json.dumps({one: [1]}), "startingOffsets": "earliest"},
        "offsets": {"subscribe": one, "startingOffsets": json.dumps({one: {"0": 2, "1": -1}})},
        "time": {"subscribe": one, "startingTimestamp": "1002000"},
        "times": {"subscribe": one, "startingOffsetsByTimestamp": json.dumps({one: {"0": 1003000, "1": 1003000}})},
        "latest": {"subscribe": one},
    }
    engine = _engine(spark, tmp_path)
    for name, options in start.items():
        engine.execute(f"CREATE STREAM {name} (v INT) USING kafka {topics.options(value_format='json', **options)}")
        engine.query(f"q_{name}", f"SELECT v FROM {name}")
    engine.run_once()
    found = {name: sorted(engine.results(f"q_{name}").column("v").to_pylist()) for name in start}
    first, later = [0, 1, 2, 3], [10, 11]
    assert found == {
        "all_one": first + later,
        "all_two": first,
        "pattern": sorted(first * 2 + later),
        "assigned": later,
        "offsets": [2, 3],
        "time": [2, 3, *later],
        "times": [3, *later],
        "latest": [],
    }


def test_values_and_keys_that_are_not_utf_8(spark: Any, tmp_path: Path, topics: Topics) -> None:
    bad, shown = b"\xff\xfeA", "\ufffd\ufffdA"
    topics.send("json", [b'{"v": 1}', b'{"v": ' + bad, b'{"v": 2}'], lambda n: {"key": bad})
    topics.send("text", [bad])
    engine = _engine(spark, tmp_path)
    for form, columns in (("json", "k STRING, v INT"), ("text", "k STRING, t STRING")):
        more = {"key_column": "k"} | ({"dead_letter_topic": topics.name("dead")} if form == "json" else {})
        options = topics.options(subscribe=topics.name(form), startingOffsets="earliest", value_format=form, **more)
        engine.execute(f"CREATE STREAM s_{form} ({columns}) USING kafka {options}")
        engine.query(f"q_{form}", f"SELECT * FROM s_{form}")
    engine.run_once()
    assert _rows(engine, "q_json") == [{"k": shown, "v": 1}, {"k": shown, "v": 2}]
    assert _rows(engine, "q_text") == [{"k": None, "t": shown}]
    assert _dead(engine) == [("s_json", f'{{"v": {shown}')]
    assert [m.value for m in topics.read("dead")] == [f'{{"v": {shown}']


def test_two_streams_of_one_topic(spark: Any, tmp_path: Path, topics: Topics) -> None:
    topic = topics.send("in", [{"v": n} for n in range(3)])
    other = topics.send("other", [{"v": 7}])
    engine = _engine(spark, tmp_path)
    late = ", WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS"
    for name, subscribed, more in (("one", topic, ""), ("two", f"{topic} ", late), ("three", other, late)):
        options = topics.options(subscribe=subscribed, startingOffsets="earliest", value_format="json")
        engine.execute(f"CREATE STREAM {name} (v INT, ts TIMESTAMP{more}) USING kafka {options}")
        engine.query(f"q_{name}", f"SELECT v FROM {name}")
    engine.run_once()
    found = {name: sorted(engine.results(f"q_{name}").column("v").to_pylist()) for name in ("one", "two", "three")}
    assert found == {"one": [0, 1, 2], "two": [0, 1, 2], "three": [7]}


def test_values_of_another_schema_are_dead_letters(spark: Any, tmp_path: Path, topics: Topics) -> None:
    other = [value.replace(b"\7", b"\x08", 1) for value in _avro(spark, ROWS[:1], True)]
    topics.send("in", [*_avro(spark, ROWS, True), *other])
    form = {"value_format": "avro", "avro_framing": "registry", "avro_schema": json.dumps(AVRO)}
    engine = _engine(spark, tmp_path)
    for name, more in (("any", {}), ("one", {"avro_schema_id": "7"})):
        options = topics.options(subscribe=topics.name("in"), startingOffsets="earliest", **form, **more)
        engine.execute(f"CREATE STREAM s_{name} (k STRING, v INT) USING kafka {options}")
        engine.query(f"q_{name}", f"SELECT k, v FROM s_{name}")
    engine.run_once()
    assert _rows(engine, "q_any") == _sorted([*ROWS, ROWS[0]])
    assert _rows(engine, "q_one") == _sorted(ROWS)
    assert engine.metrics()["dead_letters"] == {"s_one": 1}

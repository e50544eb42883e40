"""Topics as sinks: values, keys, headers, the topic by a column; queries that update as upserts with tombstones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import headgate as hg
from headgate.connectors.kafka_producer import Cluster
from headgate.connectors.registry import open_sink
from headgate.spark.results import DriverWriter, Results, SinkError
from tests.arriving import arrive_json
from tests.connectors.declared import clause, query_into
from tests.kafka.topics import Topics
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": None, "v": 3}]


def _engine(spark: Any, tmp_path: Path) -> hg.Engine:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    engine.execute(f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path / 'in'}')")
    return engine


def test_messages_of_a_query(spark: Any, tmp_path: Path, topics: Topics) -> None:
    engine = _engine(spark, tmp_path)
    into = {
        "json": {"topic": topics.name("json"), "key": "k", "headers": "k, v", "epoch_header": "true"},
        "csv": {"topic": topics.name("csv"), "key": "concat(k, '-', v + 1)", "value_format": "csv"},
        "avro": {"topic": topics.name("avro"), "value_format": "avro"},
        "registry": {
            "topic": topics.name("registry"),
            "value_format": "avro",
            "avro_framing": "registry",
            "avro_schema_id": "258",
        },
        "by_column": {"topic_column": "t"},
    }
    for name, options in into.items():
        extra = f", concat('{topics.name('part')}', v % 2) AS t" if name == "by_column" else ""
        engine.execute(f"CREATE QUERY {name} INTO kafka {topics.options(**options)} AS SELECT k, v{extra} FROM s")
    options = topics.options(topic=topics.name("raw"), value_format="raw")
    engine.execute(f"CREATE QUERY raw INTO kafka {options} AS SELECT upper(k) AS value, k AS key FROM s")
    engine.run_once()
    messages = topics.read("json")
    assert [json.loads(m.value) for m in messages] == [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"v": 3}]
    assert [m.key for m in messages] == ["a", "b", None]
    heads = [m.headers for m in messages]
    assert [(h["k"], h["v"]) for h in heads] == [("a", "1"), ("b", "2"), (None, "3")]
    # Query, epoch and the number of the row.
    assert [h["headgate"].split("/")[::2] for h in heads] == [["json", str(n)] for n in range(3)]
    assert [(m.key, m.value) for m in topics.read("csv")] == [("a-2", "a,1"), ("b-3", "b,2"), (None, ",3")]
    plain = [m.data for m in topics.read("avro")]
    assert [m.data for m in topics.read("registry")] == [b"\0\0\0\1\2" + value for value in plain]
    fields = '{"name":"k","type":["string","null"]},{"name":"v","type":["int","null"]}'
    schema = f'{{"type":"record","name":"r","fields":[{fields}]}}'
    frame = spark.createDataFrame([(value,) for value in plain], "b BINARY")
    assert [tuple(row) for row in frame.selectExpr(f"from_avro(b, '{schema}') AS r").select("r.*").collect()] == [
        (row["k"], row["v"]) for row in ROWS
    ]
    assert [json.loads(m.value)["v"] for m in topics.read("part0")] == [2]
    assert [json.loads(m.value)["v"] for m in topics.read("part1")] == [1, 3]
    assert [(m.key, m.value) for m in topics.read("raw")] == [("a", "A"), ("b", "B"), (None, None)]


def test_a_query_that_updates_is_an_upsert_stream(spark: Any, tmp_path: Path, topics: Topics) -> None:
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    (tmp_path / "in").mkdir()
    engine.execute(f"CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path '{tmp_path / 'in'}')")
    engine.execute(
        f"""CREATE QUERY totals INTO kafka {topics.options(topic=topics.name("totals"))} AS
        SELECT k, sum(v) AS total FROM s GROUP BY k HAVING sum(v) < 10"""
    )
    engine.execute(
        f"""CREATE QUERY keyed INTO kafka {topics.options(topic=topics.name("keyed"), key="k")} AS
        SELECT k, sum(v) AS total FROM s GROUP BY k HAVING sum(v) < 10"""
    )
    engine.start()
    try:
        for number, (rows, totals) in enumerate(
            [
                ([("a", 1), ("b", 2)], {"a": 1, "b": 2}),
                ([("a", 3)], {"a": 4, "b": 2}),
                ([("b", 9)], {"a": 4, "b": None}),
                ([("b", -5), ("a", 9)], {"a": None, "b": 6}),
            ]
        ):
            arrive_json(tmp_path / "in" / f"{number}.json", [{"k": k, "v": v} for k, v in rows])
            for topic in ("totals", "keyed"):
                wait_until(lambda topic=topic, totals=totals: _newest(topics, topic) == totals)  # type: ignore[misc]
    finally:
        engine.stop()
    for topic, key in (("totals", lambda k: json.dumps([k])), ("keyed", lambda k: k)):
        messages = topics.read(topic)
        assert {message.key for message in messages} == {key("a"), key("b")}
        assert len([message for message in messages if message.value is None]) == 2
        assert _newest(topics, topic) == {"a": None, "b": 6}


def test_an_epoch_is_one_transaction(spark: Any, tmp_path: Path, topics: Topics) -> None:
    names = [topics.make(name) for name in ("one", "two")]
    queries = {}
    for name in names:
        options = {"kafka.bootstrap.servers": topics.servers, "topic": name, "delivery": "exactly_once"}
        queries[name] = query_into("kafka", clause(options), columns="k STRING")

    def opened() -> dict[str, DriverWriter]:
        found = {name: open_sink(spark, queries[name], queries[name].sinks[0], topics.name("run")) for name in names}
        assert all(isinstance(writer, DriverWriter) for writer in found.values())
        return cast(dict[str, DriverWriter], found)

    def publish(writers: dict[str, DriverWriter], epoch: int) -> None:
        for name, writer in writers.items():
            writer.publish(Results(name, epoch, pa.table({"k": [f"{epoch}"]})))

    def committed() -> list[list[str]]:
        return [[json.loads(m.value or "")["k"] for m in topics.read(topic)] for topic in ("one", "two")]

    first = opened()
    publish(first, 0)
    first[names[0]].flush()
    publish(first, 1)
    # The process dies before it ends the transaction of epoch 1.
    assert committed() == [["0"], ["0"]]
    Cluster._open.clear()
    second = opened()
    for epoch in (0, 1, 2):
        publish(second, epoch)
        for writer in second.values():
            writer.flush()
    assert committed() == [["0", "1", "2"]] * 2
    assert len(topics.read("one", committed=False)) == 4, "the message of the aborted transaction"
    with pytest.raises(SinkError, match=r"^query q: sink kafka: .*fenced"):
        first[names[0]].flush()
    for writer in second.values():
        writer.close()


def test_what_kafka_refuses_is_one_line(spark: Any, tmp_path: Path, topics: Topics) -> None:
    engine = _engine(spark, tmp_path)
    options = topics.options(topic=topics.name("x"), key="nosuch(k)")
    engine.execute(f"CREATE QUERY q INTO kafka {options} AS SELECT k, v FROM s")
    with pytest.raises(SinkError, match=r"^query q: sink kafka: .*nosuch[^\n]*$"):
        engine.run_once()


def _newest(topics: Topics, topic: str) -> dict[str, int | None]:
    """The total of each key in a topic; None: the newest message of the key is a tombstone."""
    found: dict[str, int | None] = {}
    for message in topics.read(topic):
        key = (message.key or "").strip('["]')
        row = None if message.value is None else json.loads(message.value)
        assert row is None or row["k"] == key
        found[key] = row and row["total"]
    return found

"""The workloads of `headgate bench kafka`, the age of records, and the records that are owed."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headgate.bench.kafka import RUNS, TOPICS, work_of
from headgate.bench.kafka_owed import CollectedRows, owed, rows_of, sent_rows
from headgate.bench.kafka_run import _feeding
from headgate.bench.kafka_sides import KafkaWork, TopicNames, TopicSelection
from headgate.bench.kafka_topics import OutputTopics, due, make_topics
from headgate.connectors.registry import connectors
from headgate.feeder.broker import Broker
from headgate.sql import Catalog
from tests.kafka.topics import Topics
from tests.processes import marked
from tests.waiting import wait_until


@pytest.mark.parametrize("name", RUNS)
def test_queries_of_a_workload(name: str) -> None:
    work = work_of(name)
    catalog = Catalog(connectors=connectors())
    for stream in work.streams:
        catalog.execute(
            f"CREATE STREAM {stream} (ts TIMESTAMP, location STRING, temperature INT, humidity INT, arrived DOUBLE,"
            " WATERMARK FOR ts AS ts - INTERVAL 1 SECOND) USING rate"
        )
    for query, select in work.queries.items():
        catalog.execute(f"CREATE QUERY {query} AS {select}")
    assert len(work.streams) <= TOPICS
    assert set(work.classes) == set(work.queries) == set(catalog.queries)
    assert all("arrived" in query.schema.names for query in catalog.queries.values())
    assert len({query.sql for query in catalog.queries.values()}) == len(work.queries)


def test_when_a_record_is_due() -> None:
    assert due({"arrived": 12.5}) == 12.5
    end = "1970-01-01T00:00:10.000Z"
    assert due({"arrived": 9.5, "w": {"start": "x", "end": end}}) == 11.0, "the watermark passes a second after the end"
    assert due({"arrived": 11.5, "w": {"start": "x", "end": end}}) == 11.5


def test_records_of_many_topics_are_read_at_once(topics: Topics) -> None:
    names = [f"q{number}" for number in range(60)]
    place = TopicNames(topics.servers, topics.name(""))
    make_topics(place, KafkaWork(dict.fromkeys(names, ""), {}, (), {}))
    outputs = OutputTopics(place, names)
    assert outputs.last() == 0.0
    assert list(outputs.records(0.0)) == []
    producer = Producer({"bootstrap.servers": topics.servers})
    for number, name in enumerate(names[1:]):
        for each in range(3):
            producer.produce(place.sink(name), json.dumps({"arrived": number + each / 4}))
    assert producer.flush(60) == 0
    assert outputs.wait_for(177, 60)
    assert not outputs.wait_for(178, 0)
    assert outputs.count() == 177
    found = list(outputs.records(0.0))
    assert sorted(moment for _, moment in found) == sorted(n + each / 4 for n in range(59) for each in range(3))
    newest = max(appended for appended, _ in found)
    assert outputs.last() == newest
    assert list(outputs.records(newest + 1)) == []
    assert all(appended >= newest for appended, _ in outputs.records(newest))
    assert sorted(due for _, due in outputs.of(names[:2]).records(0.0)) == [0.0, 0.25, 0.5]


def test_selections_owe_the_rows_that_pass(topics: Topics) -> None:
    chosen = {"a": TopicSelection("s0", "temperature > 30"), "b": TopicSelection("s0", "humidity < 2")}
    chosen["c"] = TopicSelection("s1", "temperature <= 30")
    work = KafkaWork({name: each.sql for name, each in chosen.items()}, {}, ("s0", "s1"), chosen)
    rows = [("s0", 31, 1, 5.0), ("s0", 30, 1, 6.0), ("s0", 40, 9, 7.0), ("s1", 30, 0, 8.0), ("s1", 31, 0, 9.0)]
    for stream in work.streams:
        values = [
            {"ts": "2026-01-01T00:00:00Z", "location": "x", "temperature": t, "humidity": h, "arrived": at}
            for name, t, h, at in rows
            if name == stream
        ]
        topics.send(f"in.{stream}", values)
    sent = sent_rows(TopicNames(topics.servers, topics.name("")), work)
    assert owed(None, work, sent) == {"a": 2, "b": 2, "c": 1}
    assert owed(None, work, sent, 6.0, 8.0) == {"a": 1, "b": 1, "c": 0}


@pytest.mark.spark
def test_selections_owe_what_spark_answers(spark: Any) -> None:
    work = work_of("selections_200")
    target = CollectedRows()
    rows = rows_of(_feeding(target, work.streams, 200.0, 1.0), target, 1.0)
    found = owed(None, work, rows)
    for stream in work.streams[:2]:
        names = [name for name, each in work.selections.items() if each.stream == stream]
        counts = [f"count_if({work.selections[name].condition})" for name in names]
        [answer] = spark.createDataFrame(rows[stream]).selectExpr(*counts).collect()
        assert [found[name] for name in names] == list(answer)
        assert sum(answer) > 0


@pytest.mark.spark
def test_what_a_feeder_will_send_is_known_in_advance(spark: Any) -> None:
    work = work_of("classes_21")
    target, again = CollectedRows(), CollectedRows()
    rows = rows_of(_feeding(target, work.streams, 50.0, 1.0), target, 1.0)
    feeder = _feeding(again, work.streams, 50.0, 1.0)
    for moment in range(1, 15):
        feeder.advance(moment / 10)
    for stream, tables in target.tables.items():
        columns = ["ts", "location", "temperature", "humidity"]
        assert pa.concat_tables(tables).select(columns) == pa.concat_tables(again.tables[stream]).select(columns)
    work = KafkaWork({name: work.queries[name] for name in ("select_0", "aggregate_0", "join_0")}, {}, (), {})
    found = owed(spark, work, rows)
    frames = {stream: spark.createDataFrame(table) for stream, table in rows.items()}
    assert found["select_0"] == frames["s0"].where("temperature >= 30").count() > 0
    assert found["aggregate_0"] == frames["s6"].selectExpr("date_trunc('second', ts)", "location").distinct().count()
    left, right = (frames[name].alias(name) for name in ("s15", "s16"))
    pairs = left.join(right, ["location", "temperature"]).where("abs(unix_micros(s15.ts) - unix_micros(s16.ts)) <= 1e5")
    assert found["join_0"] == pairs.count()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begun", "number"),
    [
        ("kafka.Kafka", signal.SIGTERM),
        ("multiprocessing.spawn", signal.SIGTERM),
        ("SparkSubmit", signal.SIGTERM),
        ("SparkSubmit", signal.SIGINT),
        ("headgate.spark.supervisor", signal.SIGTERM),
        ("headgate.spark.daemon", signal.SIGTERM),
        ("headgate.spark.daemon", signal.SIGINT),
    ],
)
def test_a_bench_that_is_ended_leaves_nothing(
    broker: Broker, tmp_path: Path, begun: str, number: signal.Signals
) -> None:
    """`begun`: the process whose start is the moment of the signal."""
    del broker  # the jars are there
    options = [f"--set={each}" for each in ("workloads=selections_21", "sides=headgate", "warm=600")]
    bench = ["-m", "headgate.cli.main", "bench", "kafka", *options]
    with marked(*bench, HEADGATE_CLASS_ARCHIVE="off", TMPDIR=str(tmp_path)) as started:
        wait_until(lambda: started.runs(begun), started.process)
        started.process.send_signal(number)
        assert started.process.wait() in (128 + number, 130)
        wait_until(lambda: not started.all())
    assert not [left for left in tmp_path.iterdir() if left.name.startswith("headgate-bench")]

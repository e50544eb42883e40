"""Transactions that are open when a run fails, stops or is killed: readers of committed messages read on at once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.connectors import kafka_producer
from headgate.connectors.kafka_messages import DirectKafkaWriter
from headgate.connectors.kafka_producer import Cluster
from headgate.graph.queries import Query, Sink
from headgate.spark.results import Results, SinkError
from tests.connectors.declared import clause, query_into
from tests.kafka.topics import Topics
from tests.waiting import LIMIT, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SENT, LATER = '{"k":"a"}', '{"k": "later"}'


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers end an open transaction by themselves only after the tests have given up."""
    monkeypatch.setattr(kafka_producer, "_PATIENCE", LIMIT + 200)


def _engine(spark: Any, root: Path, topics: Topics, sink: Sink) -> hg.Engine:
    """An engine with a query `a` into the topic t, and a query `b` into this sink, which comes second."""
    if not (root / "in").exists():
        (root / "in").mkdir()
        (root / "in" / "0.json").write_text(SENT)
    engine = hg.Engine(checkpoint=str(root / "ck"), spark=spark)
    engine.execute(f"CREATE STREAM s (k STRING) USING json OPTIONS (path '{root / 'in'}')")
    into = topics.options(topic=topics.name("t"), delivery="exactly_once")
    engine.execute(f"CREATE QUERY a INTO kafka {into} AS SELECT k FROM s")
    engine.query("b", "SELECT k FROM s", sink=sink)
    return engine


def _await_sent(topics: Topics) -> None:
    """Returns when the broker has the message of the open transaction."""
    wait_until(lambda: len(topics.read("t", committed=False)) == 1)


def _await_read_on(topics: Topics) -> None:
    """Returns when a later message, sent without a transaction, can be read; that of the transaction never can."""
    assert topics.read("t") == []
    topics.send("t", [LATER])
    wait_until(lambda: [message.value for message in topics.read("t")] == [LATER])


def test_another_sink_fails(spark: Any, tmp_path: Path, topics: Topics) -> None:
    topics.make("t")

    def fail(rows: Any) -> None:
        _await_sent(topics)
        raise RuntimeError("the pager is broken")

    with pytest.raises(SinkError, match="the pager is broken"):
        _engine(spark, tmp_path, topics, hg.callback(fail)).run_once()
    _await_read_on(topics)
    _engine(spark, tmp_path, topics, hg.callback(lambda rows: None)).run_once()
    assert [message.value for message in topics.read("t")] == [LATER, SENT]


def test_a_stop_while_another_sink_stands_still(spark: Any, tmp_path: Path, topics: Topics) -> None:
    topics.make("t")
    begun, goes_on = threading.Event(), threading.Event()

    def stand_still(rows: Any) -> None:
        begun.set()
        goes_on.wait(LIMIT)

    engine = _engine(spark, tmp_path, topics, hg.callback(stand_still))
    engine.start()
    assert begun.wait(LIMIT)
    [cluster] = Cluster._open.values()
    _await_sent(topics)
    engine.stop()
    assert "did not take the results" in str(engine.failure)
    _await_read_on(topics)
    goes_on.set()
    # What the sink does later is not another transaction.
    wait_until(lambda: not [t for t in threading.enumerate() if t.name == "headgate-publisher"])
    assert not cluster._in_transaction
    assert "did not take the results" in str(engine.failure)
    _engine(spark, tmp_path, topics, hg.callback(lambda rows: None)).run_once()
    assert [message.value for message in topics.read("t")] == [LATER, SENT]


def test_the_next_start_after_a_kill(topics: Topics) -> None:
    options = {"kafka.bootstrap.servers": topics.servers, "topic": topics.make("t"), "delivery": "exactly_once"}
    query = query_into("kafka", clause(options), columns="k STRING")
    killed = _writer(query, topics)
    killed.publish(_results(query))
    _await_sent(topics)
    # The process dies.
    Cluster._open.clear()
    again = _writer(query, topics)
    _await_read_on(topics)
    with pytest.raises(SinkError, match="fenced"):
        killed.flush()
    killed.revoke()
    again.publish(_results(query))
    again.flush()
    again.close()
    assert [message.value for message in topics.read("t")] == [LATER, SENT]


def _writer(query: Query, topics: Topics) -> DirectKafkaWriter:
    return DirectKafkaWriter(query, query.sinks[0].options, topics.name("run"))


def _results(query: Query) -> Results:
    return Results(query.name, 0, pa.table({"k": ["a"]}))

"""Kafka without a broker: which messages the driver makes, and which it leaves to Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from headgate.connectors import kafka_producer
from headgate.connectors.kafka_cluster import subscribed
from headgate.connectors.kafka_producer import Cluster, DirectKafkaWriter, obstacle
from headgate.spark.results import Results
from tests.connectors.declared import clause, query_into

SERVERS = {"kafka.bootstrap.servers": "h:1"}


class Sent:
    """A cluster that keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes | None, bytes | None, Any]] = []
        self.begun: list[tuple[int, str]] = []

    def require(self, topic: str) -> None:
        assert topic == "t"

    def has(self, topic: str, epoch: int) -> bool:
        return (topic, epoch) == ("t", 0)

    def begin(self, epoch: int, topic: str) -> None:
        self.begun.append((epoch, topic))

    def send(self, *message: Any) -> None:
        self.messages.append(message)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    made = Sent()
    monkeypatch.setattr(Cluster, "of", lambda options, run, exactly_once: made)
    return made


def test_messages_that_the_driver_makes(sent: Sent) -> None:
    options = {**SERVERS, "topic": "t", "key": "K", "headers": "n", "epoch_header": "true"}
    query = query_into("kafka", clause(options), "k STRING, n INT")
    writer = DirectKafkaWriter(query, query.sinks[0].options, "run")
    rows = pa.table({"k": ["a", None], "n": pa.array([1, None], pa.int32())})
    writer.publish(Results("q", 0, rows))
    assert not sent.messages, "the epoch was committed before the crash"
    writer.publish(Results("q", 1, rows))
    assert sent.begun == [(1, "t")]
    assert sent.messages == [
        ("t", b'{"k":"a","n":1}', b"a", [("n", b"1"), ("headgate", b"q/1/0")]),
        ("t", b"{}", None, [("n", None), ("headgate", b"q/1/1")]),
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, None),
        ({"topic_column": "k"}, None),
        ({"value_format": "csv", "kafka.acks": "all"}, None),
        ({"value_format": "avro"}, "value_format avro is written by Spark"),
        ({"key": "upper(k)"}, "upper(k) is written by Spark"),
        ({"headers": "d"}, "d is written by Spark"),
        ({"kafka.security.protocol": "SSL"}, "the option kafka.security.protocol is one of Kafka's client in Java"),
        ({"topic_column": "k", "delivery": "exactly_once"}, "it needs the option topic instead of topic_column"),
    ],
)
def test_what_the_driver_leaves_to_spark(
    monkeypatch: pytest.MonkeyPatch, more: Mapping[str, str], said: str | None
) -> None:
    monkeypatch.setattr(kafka_producer, "installed", lambda: True)
    options = {**SERVERS, **({} if "topic_column" in more else {"topic": "t"}), **more}
    query = query_into("kafka", clause(options), "k STRING, n INT, d DOUBLE")
    assert obstacle(query, query.sinks[0].options) == said


def test_without_the_client_spark_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_producer, "installed", lambda: False)
    query = query_into("kafka", clause({**SERVERS, "topic": "t"}))
    assert "pip install 'headgate[kafka]'" in str(obstacle(query, query.sinks[0].options))


def test_topics_of_a_stream() -> None:
    assert subscribed({"subscribe": "a, b"}) == ["a", "b"]
    assert subscribed({"assign": '{"a": [0]}'}) == ["a"]
    assert subscribed({"assign": "{"}) == subscribed({"subscribePattern": "a.*"}) == []

"""Kafka without a broker: which messages the driver makes, and which it leaves to Spark."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headgate.connectors import kafka_messages, kafka_producer
from headgate.connectors.kafka_cluster import subscribed
from headgate.connectors.kafka_messages import DirectKafkaWriter, obstacle
from headgate.connectors.kafka_producer import Cluster
from headgate.connectors.kafka_security import for_librdkafka
from headgate.connectors.kafka_sink import messages
from headgate.spark.outbox_rows import OutboxRows
from headgate.spark.results import Results, SinkError
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
        ({"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}, None),
        ({"kafka.security.protocol": "SSL"}, "brokers are checked with the certificates that Java knows"),
        ({"kafka.security.protocol": "SSL", "delivery": "exactly_once"}, None),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "PEM"}, None),
        ({"kafka.sasl.mechanism": "GSSAPI"}, "the option kafka.sasl.mechanism is one of Kafka's client in Java"),
        ({"kafka.max.block.ms": "1"}, "the option kafka.max.block.ms is one of Kafka's client in Java"),
        ({"topic_column": "k", "delivery": "exactly_once"}, "it needs the option topic instead of topic_column"),
    ],
)
def test_what_the_driver_leaves_to_spark(
    monkeypatch: pytest.MonkeyPatch, more: Mapping[str, str], said: str | None
) -> None:
    monkeypatch.setattr(kafka_messages, "installed", lambda: True)
    options = {**SERVERS, **({} if "topic_column" in more else {"topic": "t"}), **more}
    query = query_into("kafka", clause(options), "k STRING, n INT, d DOUBLE")
    assert obstacle(query, query.sinks[0].options) == said


def test_options_in_other_letters_are_not_left_out() -> None:
    given = {
        "Kafka.Bootstrap.Servers": "h:1",
        "Topic": "t",
        "KAFKA.Security.Protocol": "SSL",
        "Delivery": "exactly_once",
    }
    options = query_into("kafka", clause(given), "k STRING").sinks[0].options
    assert for_librdkafka(options) == ({"bootstrap.servers": "h:1", "security.protocol": "SSL"}, None)


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"sasl.jaas.config": f'{PLAIN} username="me" password="a;b\\"c";'}, {"sasl.password": 'a;b"c'}),
        ({"sasl.jaas.config": f"{SCRAM}\n  username='me' password=x ;"}, {"sasl.password": "x"}),
        ({"sasl.jaas.config": f'{SCRAM} username="me" password="x" tokenauth="true";'}, None),
        ({"sasl.jaas.config": 'com.example.Login required username="me" password="x";'}, None),
        ({"sasl.mechanism": "SCRAM-SHA-512"}, {"sasl.mechanism": "SCRAM-SHA-512"}),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "C"}, {"ssl.ca.pem": "C"}),
        ({"ssl.truststore.location": "a.jks"}, None),
        ({"ssl.truststore.type": "JKS"}, None),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": "K", "ssl.keystore.certificate.chain": "C"},
            {"ssl.key.pem": "K", "ssl.certificate.pem": "C"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
    ],
)
def test_how_a_cluster_is_entered(given: Mapping[str, str], wanted: Mapping[str, str] | None) -> None:
    settings, other = for_librdkafka({f"kafka.{name}": value for name, value in given.items()})
    if wanted is None:
        assert other is not None
        return
    assert other is None
    if "sasl.jaas.config" in given:
        assert settings.pop("sasl.username") == "me"
    assert settings == wanted


def test_without_the_client_spark_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_messages, "installed", lambda: False)
    query = query_into("kafka", clause({**SERVERS, "topic": "t"}))
    assert "pip install 'headgate[kafka]'" in str(obstacle(query, query.sinks[0].options))


class Client:
    """A producer that takes no message; `refusal` is raised when topics are listed."""

    def __init__(self, settings: Mapping[str, Any], refusal: Exception | None = None) -> None:
        self.settings = settings
        self.refusal = refusal
        self.calls: list[str] = []

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> Any:
        if topic is not None and self.refusal is not None:
            raise self.refusal
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None)}, cluster_id="c")

    def flush(self, timeout: float) -> int:
        return 0

    def poll(self, timeout: float) -> int:
        return 0

    def init_transactions(self, timeout: float) -> None: ...

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def produce(self, *message: Any, **more: Any) -> None:
        self.calls.append("send")

    def abort_transaction(self, timeout: float) -> None:
        self.calls.append("abort")
        raise OSError("no broker answers")


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """The producers that are made."""
    made: list[Client] = []
    kafka = pytest.importorskip("confluent_kafka")

    def make(settings: Mapping[str, Any]) -> Client:
        made.append(Client(settings))
        return made[-1]

    monkeypatch.setattr(kafka, "Producer", make)
    monkeypatch.setattr(Cluster, "_open", {})
    return made


@pytest.mark.parametrize(("acks", "safe"), [(None, True), ("all", True), ("-1", True), ("1", False), ("0", False)])
def test_repetitions_are_recognized_where_all_replicas_confirm(
    clients: list[Client], acks: str | None, safe: bool
) -> None:
    Cluster.of({**SERVERS, **({} if acks is None else {"kafka.acks": acks})}, "run", False)
    assert clients[0].settings.get("acks") == acks
    assert (clients[0].settings.get("enable.idempotence") == "true") == safe


def test_producers_of_one_run_do_not_end_each_other(clients: list[Client]) -> None:
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{PLAIN} username="me" password="first";',
    }
    for more in ({}, {"kafka.compression.type": "lz4"}, login):
        Cluster.of({**SERVERS, **more}, "run", True)
    names = [client.settings["transactional.id"] for client in clients]
    assert names[0] == "headgate-run"
    assert len(set(names)) == 3, "the brokers refuse the older one of two producers with the same name"
    Cluster._open.clear()
    # A renewed password is the same producer after a restart.
    Cluster.of({**SERVERS, **login, "kafka.sasl.jaas.config": f'{PLAIN} username="me" password="other";'}, "run", True)
    assert clients[-1].settings["transactional.id"] == names[2]


def test_one_cluster_under_two_addresses(clients: list[Client]) -> None:
    Cluster.of(SERVERS, "run", True)
    Cluster.of({"kafka.bootstrap.servers": "g:1"}, "other", True)
    with pytest.raises(SinkError, match=r"^kafka.bootstrap.servers is h:1 in one query and g:1 in another, which are"):
        Cluster.of({"kafka.bootstrap.servers": "g:1"}, "run", True)


def test_a_writer_that_cannot_be_opened_does_not_keep_the_producer(clients: list[Client]) -> None:
    query = query_into("kafka", clause({**SERVERS, "topic": "t"}))
    options = query.sinks[0].options
    Cluster.of(options, "run", False)
    clients[0].refusal = ValueError("Broker: not authorized")
    with pytest.raises(SinkError, match=r"^query q: sink kafka: Broker: not authorized$"):
        DirectKafkaWriter(query, options, "run")
    [open_] = Cluster._open.values()
    open_.close()
    assert not Cluster._open


def test_a_producer_that_is_abandoned_is_not_used_again(clients: list[Client]) -> None:
    query = query_into("kafka", clause({**SERVERS, "topic": "t"}))
    first = DirectKafkaWriter(query, query.sinks[0].options, "run")
    first._cluster._refused = "topic t: it is full"
    first.abandon()
    second = DirectKafkaWriter(query, query.sinks[0].options, "run")
    assert second._cluster._refused is None
    first.close()
    assert list(Cluster._open.values()) == [second._cluster]
    assert len(clients) == 2


@pytest.mark.parametrize("way", ["revoke", "abandon", "close"])
def test_an_epoch_that_fails_leaves_no_transaction_open(
    clients: list[Client], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Even if the brokers do not answer, they are asked once, and nothing is raised."""
    monkeypatch.setattr(Cluster, "has", lambda self, topic, epoch: False)
    query = query_into("kafka", clause({**SERVERS, "topic": "t", "delivery": "exactly_once"}), "k STRING")
    writers = [DirectKafkaWriter(query, query.sinks[0].options, "run") for _ in range(2)]
    rows = Results("q", 1, pa.table({"k": ["a"]}))
    writers[0].publish(rows)
    for writer in writers:
        getattr(writer, way)()
    if way != "close":
        for writer in writers:
            writer.close()
    assert clients[0].calls == ["begin", "send", "abort"]
    assert not Cluster._open
    # The rest of the epoch must not become a transaction of its own.
    with pytest.raises(SinkError, match="was aborted"):
        writers[1].publish(rows)
    with pytest.raises(SinkError, match="was aborted"):
        writers[1].flush()


def test_lines_with_any_character(sent: Sent) -> None:
    query = query_into("kafka", clause({**SERVERS, "topic": "t", "value_format": "csv"}), "k STRING, n INT")
    writer = DirectKafkaWriter(query, query.sinks[0].options, "run")
    writer.publish(Results("q", 1, pa.table({"k": ["a\x1e\x1fb", "c\nd"], "n": pa.array([1, 2], pa.int32())})))
    assert [value for _, value, _, _ in sent.messages] == [b"a\x1e\x1fb,1", b'"c\nd",2']


def test_a_topic_that_is_null(sent: Sent) -> None:
    query = query_into("kafka", clause({**SERVERS, "topic_column": "k"}), "k STRING, n INT")
    writer = DirectKafkaWriter(query, query.sinks[0].options, "run")
    with pytest.raises(SinkError, match=r"^query q: sink kafka: column k names the topic of a row, and is null in one"):
        writer.publish(Results("q", 3, pa.table({"k": ["t", None], "n": pa.array([1, 2], pa.int32())})))
    assert not sent.messages


def test_brokers_that_are_not_ready_are_asked_again() -> None:
    kafka = pytest.importorskip("confluent_kafka")
    codes = [kafka.KafkaError.NOT_COORDINATOR, kafka.KafkaError.CONCURRENT_TRANSACTIONS]
    refusals = [kafka.KafkaError(code, "later") for code in codes]
    refusals.append(kafka.KafkaError(kafka.KafkaError._TIMED_OUT, "later", retriable=True))

    def asked() -> str:
        if refusals:
            raise kafka.KafkaException(refusals.pop())
        return "done"

    assert kafka_producer._retried(asked) == "done"
    refusals.append(kafka.KafkaError(kafka.KafkaError._FENCED, "another one writes"))
    with pytest.raises(kafka.KafkaException, match="another one writes"):
        kafka_producer._retried(asked)


def test_the_key_of_an_aggregate_without_groups(sent: Sent) -> None:
    query = query_into("kafka", clause({**SERVERS, "topic": "t"}), select="count(*) AS n")
    assert obstacle(query, query.sinks[0].options) is None
    writer = DirectKafkaWriter(query, query.sinks[0].options, "run")
    rows = pa.table({"n": [1], "deleted": [False]})
    writer.publish(Results.of("q", 1, rows, 1, True))
    assert sent.messages == [("t", b'{"n":1}', b"[]", [])]
    by_spark = messages(OutboxRows(query, 1, "", ()), query.sinks[0].options)
    assert "CAST('[]' AS BINARY) AS key" in by_spark


def test_topics_of_a_stream() -> None:
    assert subscribed({"subscribe": "a, b"}) == ["a", "b"]
    assert subscribed({"assign": '{"a": [0]}'}) == ["a"]
    assert subscribed({"assign": "{"}) == subscribed({"subscribePattern": "a.*"}) == []

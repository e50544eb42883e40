"""The messages of a query as the driver makes them, without a Spark job, for the producer of `kafka_producer.py`.

Used if confluent-kafka is installed and the messages can be made without Spark; `kafka_sink.py` has the others.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headgate.connectors.csv import csv_lines
from headgate.connectors.json import json_lines
from headgate.connectors.kafka_producer import Cluster, Headers
from headgate.connectors.kafka_security import for_librdkafka
from headgate.graph import types as t
from headgate.graph.queries import Query
from headgate.spark.results import DriverWriter, Results, SinkError

_PLAIN = (t.STRING, t.BOOLEAN, t.TINYINT, t.SMALLINT, t.INT, t.BIGINT, t.DATE)
"""Types whose texts are the same in Arrow and in Spark."""


def installed() -> bool:
    """Whether the client is installed."""
    return importlib.util.find_spec("confluent_kafka") is not None


def obstacle(query: Query, options: Mapping[str, str]) -> str | None:
    """Why the driver cannot make the messages of a query; None if it can."""
    types = {field.name.lower(): field.type for field in query.schema.fields}
    if not installed():
        return "it needs the package confluent-kafka: pip install 'headgate[kafka]'"
    if options.get("value_format", "json") in ("avro", "raw"):
        return f"value_format {options['value_format']} is written by Spark"
    if options.get("delivery") == "exactly_once" and "topic_column" in options:
        return "it needs the option topic instead of topic_column"
    named = [name.strip() for name in options.get("headers", "").split(",") if name.strip()]
    if "key" in options:
        named.append(options["key"])
    for name in named:
        if types.get(name.lower()) not in _PLAIN:
            return f"{name} is written by Spark"
    if query.mode == "update" and "key" not in options:
        identity = query.plan.schema.fields[query.visible : -1]
        if any(field.type not in _PLAIN for field in identity):
            return "a key of the query is written by Spark"
    protocol = options.get("kafka.security.protocol", "")
    own = any(name.startswith("kafka.ssl.truststore.") for name in options)
    if protocol.endswith("SSL") and not own and options.get("delivery") != "exactly_once":
        return "brokers are checked with the certificates that Java knows"
    _, other = for_librdkafka(options)
    return f"the option {other} is one of Kafka's client in Java" if other is not None else None


class DirectKafkaWriter(DriverWriter):
    """Sends the results of each epoch from the driver."""

    def __init__(self, query: Query, options: Mapping[str, str], run: str) -> None:
        self._query = query
        self._options = options
        self._names = {field.name.lower(): field.name for field in query.schema.fields}
        self._topic = options.get("topic", "")
        try:
            self._cluster = Cluster.of(options, run, options.get("delivery") == "exactly_once")
        except SinkError as error:
            raise self._error(str(error)) from error
        try:
            if self._topic:
                self._cluster.require(self._topic)
        except Exception as error:
            self._cluster.close()
            said = str(error) if isinstance(error, SinkError) else self._cluster.reason(error)
            raise self._error(said) from error
        self._first = True

    def publish(self, results: Results) -> None:
        try:
            if self._first and self._cluster.has(self._topic, results.epoch):
                return
            self._first = False
            self._cluster.begin(results.epoch, self._topic)
            for topic, value, key, headers in self._messages(results):
                self._cluster.send(topic, value, key, headers)
        except SinkError:
            raise
        except Exception as error:
            raise self._error(self._cluster.reason(error)) from error

    def flush(self) -> None:
        try:
            self._cluster.end()
        except Exception as error:
            raise self._error(self._cluster.reason(error)) from error

    def revoke(self) -> None:
        self._cluster.revoke()

    def close(self) -> None:
        self._cluster.close()

    def abandon(self) -> None:
        self._cluster.abandon()

    def _messages(self, results: Results) -> Iterator[tuple[str, bytes | None, bytes | None, Headers]]:
        table = results.table
        values: Sequence[bytes | None] = _values(table, self._options.get("value_format", "json"))
        if results.deleted is not None:
            gone = results.deleted.to_pylist()
            values = [None if deleted else value for value, deleted in zip(values, gone, strict=True)]
        count = table.num_rows
        column = self._options.get("topic_column")
        topics = [self._options["topic"]] * count if column is None else self._column(table, column).to_pylist()
        if None in topics:
            raise self._error(f"column {column} names the topic of a row, and is null in one of epoch {results.epoch}")
        keys = self._keys(results) or [None] * count
        named = [name.strip() for name in self._options.get("headers", "").split(",") if name.strip()]
        columns = [(name, _texts(self._column(table, name))) for name in named]
        marked = self._options.get("epoch_header") == "true"
        for number in range(count):
            headers: Headers = [(name, texts[number]) for name, texts in columns]
            if marked:
                headers.append(("headgate", f"{self._query.name}/{results.epoch}/{number}".encode()))
            yield topics[number], values[number], keys[number], headers

    def _keys(self, results: Results) -> list[bytes | None] | None:
        given = self._options.get("key")
        if given is not None:
            return _texts(self._column(results.table, given))
        if results.identity is None:
            return None
        # A JSON array of the values that identify the row, as texts.
        columns = [[None if v is None else v.decode() for v in _texts(c)] for c in results.identity.columns]
        if not columns:
            return [b"[]"] * results.table.num_rows
        return [
            json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in zip(*columns, strict=True)
        ]

    def _column(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        return table.column(self._names[name.lower()])

    def _error(self, said: str) -> SinkError:
        return SinkError(f"query {self._query.name}: sink kafka: {said}")


def _values(table: pa.Table, form: str) -> Sequence[bytes | None]:
    """The message of each row, as Spark writes it."""
    if form == "json":
        return json_lines()(table).split(b"\n")[:-1]
    if form == "csv":
        return csv_lines(table)
    return [v.encode() if isinstance(v, str) else v for v in table.column(0).to_pylist()]


def _texts(column: pa.ChunkedArray) -> list[bytes | None]:
    """Values as texts, as Spark casts them."""
    return [None if value is None else value.encode() for value in pc.cast(column, t.STRING).to_pylist()]

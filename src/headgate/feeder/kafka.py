"""Sends rows as JSON objects to Kafka topics, one per stream."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.feeder.feeder import FeedError
from headgate.feeder.json_text import json_texts

_PATIENCE = 30.0
"""Seconds that the broker has to accept the records."""
_QUEUE, _PIECE = 500_000, 10_000
"""Most records that wait in the producer, and records handed to it at once."""


class KafkaTarget:
    """Sends to the topics `<prefix><stream>` of the brokers `servers` (`host:port,…`).

    The timestamp of a record is the row's event time. `keys`: the column whose text is the record's key, by stream.
    Rows of one key stay in order, in one partition. `options` are settings of the producer (librdkafka).
    """

    def __init__(
        self,
        servers: str,
        prefix: str = "",
        keys: dict[str, str] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        try:
            from confluent_kafka import Producer
        except ImportError as error:
            raise FeedError("feeding Kafka needs the package confluent-kafka: pip install 'headgate[kafka]'") from error
        self._servers = servers
        self._prefix = prefix
        self._keys = keys or {}
        self._refused: str | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "queue.buffering.max.messages": _QUEUE,
                "linger.ms": 5,
                "delivery.report.only.error": True,
                "message.timeout.ms": int(_PATIENCE * 1000),
                "error_cb": lambda error: None,
                "log_level": 0,
                **(options or {}),
            }
        )
        self._reach()

    def send(self, stream: str, rows: pa.Table) -> None:
        values = json_texts(rows).to_pylist()
        key = self._keys.get(stream)
        if key is None:
            messages = [{"value": value} for value in values]
        else:
            names = rows.column(key).cast(pa.string()).to_pylist()
            messages = [{"value": value, "key": name} for value, name in zip(values, names, strict=True)]
        moments = _milliseconds(rows)
        if moments is not None:
            for message, moment in zip(messages, moments, strict=True):
                message["timestamp"] = moment
        self._produce(self._prefix + stream, messages)
        self._producer.poll(0)
        self._check()

    def close(self) -> None:
        left = self._producer.flush(_PATIENCE)
        self._check()
        if left:
            raise FeedError(f"kafka {self._servers} has not accepted {left:,} rows after {_PATIENCE:g} s")

    def _produce(self, topic: str, messages: list[dict[str, Any]]) -> None:
        for first in range(0, len(messages), _PIECE):
            piece = messages[first : first + _PIECE]
            while len(self._producer) > _QUEUE - len(piece):
                self._producer.poll(0.05)
                self._check()
            # `produce_batch` of the client takes no timestamps.
            for message in piece:
                self._producer.produce(topic, on_delivery=self._delivered, **message)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused = f"kafka topic {message.topic()}: {error.str()}"

    def _check(self) -> None:
        if self._refused is not None:
            raise FeedError(self._refused)

    def _reach(self) -> None:
        from confluent_kafka import KafkaException

        try:
            self._producer.list_topics(timeout=5)
        except KafkaException as error:
            raise FeedError(f"kafka {self._servers}: no broker answers; start one or give its address") from error


def _milliseconds(rows: pa.Table) -> list[int] | None:
    for column in rows.columns:
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
            return list(pc.divide(micros, 1000).to_pylist())
    return None

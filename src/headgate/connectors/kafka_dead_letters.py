"""Malformed values of Kafka streams, sent to the topics that the streams name for them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headgate.connectors.kafka import DEAD_LETTER_TOPIC, VALUE_FORMAT
from headgate.connectors.spark_format import reason
from headgate.graph.queries import Stream
from headgate.graph.secrets import resolved, without_secrets
from headgate.spark.packages import see_added
from headgate.spark.results import SinkError

_COLUMNS = "topic STRING, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


class DeadLetterTopics:
    """Sends dead letters at least once: a message has the original value, and stream and reason as headers.

    `streams` returns the streams that are currently declared.
    """

    def __init__(self, spark: Any, streams: Callable[[], Mapping[str, Stream]]) -> None:
        self._spark = spark
        self._streams = streams

    @property
    def wanted(self) -> bool:
        """Whether some stream names a topic."""
        return any(DEAD_LETTER_TOPIC.name in stream.options for stream in self._streams().values())

    def send(self, letters: Iterable[Mapping[str, str]]) -> None:
        """Sends letters (`stream`, `reason`, `row`); those of streams without a topic are left out."""
        by_cluster: dict[tuple[tuple[str, str], ...], list[tuple[str, bytes, list[tuple[str, bytes]]]]] = {}
        for letter in letters:
            stream = self._streams().get(letter["stream"])
            if stream is None or DEAD_LETTER_TOPIC.name not in stream.options:
                continue
            binary = VALUE_FORMAT.chosen(stream.options) == "avro"
            value = base64.b64decode(letter["row"]) if binary else letter["row"].encode()
            heads = [(name, letter[name].encode()) for name in ("stream", "reason")]
            cluster = tuple(sorted((k, v) for k, v in resolved(stream.options).items() if k.startswith("kafka.")))
            by_cluster.setdefault(cluster, []).append((stream.options[DEAD_LETTER_TOPIC.name], value, heads))
        for cluster, messages in by_cluster.items():
            self._write(dict(cluster), messages)

    def _write(self, options: Mapping[str, str], messages: list[Any]) -> None:
        see_added(self._spark)
        try:
            frame = self._spark.createDataFrame(messages, _COLUMNS).coalesce(1)
            frame.write.format("kafka").options(**options).mode("append").save()
        except Exception as error:
            topics = ", ".join(sorted({topic for topic, _, _ in messages}))
            said = without_secrets(reason(error), options)
            raise SinkError(f"dead letters cannot be sent to topic {topics}: {said}") from error

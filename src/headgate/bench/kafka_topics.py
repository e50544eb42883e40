"""The topics of the Kafka bench: made for each side, and read for the age of their records."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from headgate.bench.kafka_sides import DELAY, KafkaWork, TopicNames

_PATIENCE = 30.0
_SILENT = {"log_level": 0}
"""Keeps the client from printing messages."""


def make_topics(place: TopicNames, work: KafkaWork) -> None:
    """Makes the topics of all streams and queries; the broker's clock stamps the records of the queries."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    topics = [NewTopic(place.source(stream), 1, 1) for stream in work.streams]
    appended = {"message.timestamp.type": "LogAppendTime"}
    topics += [NewTopic(place.sink(query), 1, 1, config=appended) for query in work.queries]
    admin = AdminClient({"bootstrap.servers": place.servers, **_SILENT})
    for done in admin.create_topics(topics).values():
        done.result()


class OutputTopics:
    """The output topics of one side."""

    def __init__(self, place: TopicNames, work: KafkaWork) -> None:
        self._place = place
        self._queries = tuple(work.queries)

    def ages(self, queries: Sequence[str], since: float, until: float) -> list[float]:
        """For each record appended in that time: seconds since its row was sent, or since its window could be emitted.

        A window can be emitted when its watermark has passed: `DELAY` after its end, by the producer's clock.
        """
        found: list[float] = []
        for appended, value in self._records(queries):
            if since <= appended < until:
                found.append(appended - due(json.loads(value)))
        return found

    def last(self) -> float:
        """When the last record was appended."""
        return max((appended for appended, _ in self._records(self._queries)), default=0.0)

    def wait_until_quiet(self, seconds: float, longest: float) -> None:
        """Returns when nothing was appended for `seconds`, or after `longest` seconds."""
        consumer = self._consumer()
        until = time.monotonic() + longest
        count, since = -1, time.monotonic()
        while time.monotonic() < min(until, since + seconds):
            found = self._count(consumer)
            if found != count:
                count, since = found, time.monotonic()
            time.sleep(0.2)
        consumer.close()

    def _count(self, consumer: Any) -> int:
        from confluent_kafka import TopicPartition

        topics = [TopicPartition(self._place.sink(query), 0) for query in self._queries]
        return sum(consumer.get_watermark_offsets(topic, _PATIENCE)[1] for topic in topics)

    def _records(self, queries: Sequence[str]) -> Iterator[tuple[float, bytes]]:
        """The time at which each record was appended, and its value."""
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        for query in queries:
            consumer.assign([TopicPartition(self._place.sink(query), 0, 0)])
            # `consume` would wait for a full batch, also at the end of a topic.
            while (message := consumer.poll(_PATIENCE)) is not None and message.error() is None:
                yield message.timestamp()[1] / 1000, message.value()
        consumer.close()

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer

        settings = {"bootstrap.servers": self._place.servers, "group.id": "bench", "enable.auto.commit": False}
        return Consumer({**settings, **_SILENT, "enable.partition.eof": True})


def due(row: dict[str, Any]) -> float:
    """The earliest time at which the record could be written."""
    arrived = float(row["arrived"])
    if "w" not in row:
        return arrived
    return max(arrived, datetime.fromisoformat(row["w"]["end"]).timestamp() + DELAY)

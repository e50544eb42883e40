"""The topics of the Kafka bench: made for each side, and read for the age of their records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from headgate.bench.kafka_sides import DELAY, KafkaWork, TopicNames

_PATIENCE = 30.0
_SILENT = {"log_level": 0}
"""Keeps the client from printing messages."""
# By default the broker holds a request at the end of a topic for 500 ms.
_READER = {"fetch.wait.max.ms": 10, "enable.partition.eof": True, "group.id": "bench", "enable.auto.commit": False}


def make_topics(place: TopicNames, work: KafkaWork) -> None:
    """Makes the topics of all streams and queries; the broker's clock stamps the records of the queries."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    topics = [NewTopic(place.source(stream), 1, 1) for stream in work.streams]
    appended = {"message.timestamp.type": "LogAppendTime"}
    topics += [NewTopic(place.sink(query), 1, 1, config=appended) for query in work.queries]
    admin = AdminClient({"bootstrap.servers": place.servers, **_SILENT})
    for done in admin.create_topics(topics).values():
        done.result()


def input_rows(place: TopicNames, stream: str) -> Iterator[dict[str, Any]]:
    """The rows that are in the topic of a stream now."""
    from confluent_kafka import TopicPartition

    with _Consumer(place.servers) as consumer:
        for message in _read(consumer, [TopicPartition(place.source(stream), 0, 0)]):
            yield json.loads(message.value())


class OutputTopics:
    """The output topics of one side."""

    def __init__(self, place: TopicNames, queries: Sequence[str]) -> None:
        self._place = place
        self._queries = tuple(queries)

    def of(self, queries: Sequence[str]) -> OutputTopics:
        """The topics of some of the queries."""
        return OutputTopics(self._place, queries)

    def records(self, since: float) -> Iterator[tuple[float, float]]:
        """For each record that was appended since a time: when, and when it was due (see `due`)."""
        from confluent_kafka import TopicPartition

        with self._consumer() as consumer:
            topics = self._partitions(int(since * 1000))
            places = consumer.offsets_for_times(topics, _PATIENCE) if topics else []
            # The offset is negative if there is no record since then.
            begins = [TopicPartition(each.topic, 0, each.offset) for each in places if each.offset >= 0]
            for message in _read(consumer, begins):
                yield message.timestamp()[1] / 1000, due(json.loads(message.value()))

    def last(self) -> float:
        """When the last record was appended; reads one record of each topic."""
        from confluent_kafka import TopicPartition

        with self._consumer() as consumer:
            ends = [(topic, self._end(consumer, topic)) for topic in self._partitions()]
            begins = [TopicPartition(topic.topic, 0, end - 1) for topic, end in ends if end > 0]
            return max((message.timestamp()[1] / 1000 for message in _read(consumer, begins)), default=0.0)

    def count(self) -> int:
        """The number of records in all topics."""
        with self._consumer() as consumer:
            return sum(self._end(consumer, topic) for topic in self._partitions())

    def wait_for(self, count: int, longest: float, check: Callable[[], None] = lambda: None) -> bool:
        """Waits until there are so many records; False if there are fewer after `longest` seconds. `check` raises if
        waiting has no use."""
        until = time.monotonic() + longest
        with self._consumer() as consumer:
            while sum(self._end(consumer, topic) for topic in self._partitions()) < count:
                if time.monotonic() > until:
                    return False
                check()
                time.sleep(0.1)
        return True

    def _partitions(self, offset: int = 0) -> list[Any]:
        from confluent_kafka import TopicPartition

        return [TopicPartition(self._place.sink(query), 0, offset) for query in self._queries]

    def _end(self, consumer: Any, topic: Any) -> int:
        from confluent_kafka import KafkaError, KafkaException

        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return int(consumer.get_watermark_offsets(topic, _PATIENCE)[1])
            except KafkaException as error:
                # The broker does not know a new topic at first, or who leads it.
                new = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
                if error.args[0].code() not in new or time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def _consumer(self) -> _Consumer:
        return _Consumer(self._place.servers)


class _Consumer:
    """A consumer that is closed at the end of a block."""

    def __init__(self, servers: str) -> None:
        from confluent_kafka import Consumer

        self._made: Any = Consumer({"bootstrap.servers": servers, **_READER, **_SILENT})

    def __enter__(self) -> Any:
        return self._made

    def __exit__(self, *_: object) -> None:
        self._made.close()


def _read(consumer: Any, begins: Sequence[Any]) -> Iterator[Any]:
    """The messages from these places to the present ends of the partitions, of all partitions at once."""
    from confluent_kafka import KafkaError, KafkaException

    left = len(begins)
    if left:
        consumer.assign(list(begins))
    while left:
        # `consume` would wait for a full batch, also at the end of a topic.
        message = consumer.poll(_PATIENCE)
        if message is None:
            raise TimeoutError(f"the broker did not answer within {_PATIENCE:g} s")
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            left -= 1
            consumer.incremental_unassign([_partition(message)])
        else:
            raise KafkaException(error)


def _partition(message: Any) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(message.topic(), message.partition())


def due(row: dict[str, Any]) -> float:
    """The earliest time at which the record could be written: when its row was sent, or when its window could be
    emitted, which is when its watermark has passed: `DELAY` after its end, by the producer's clock."""
    arrived = float(row["arrived"])
    if "w" not in row:
        return arrived
    return max(arrived, datetime.fromisoformat(row["w"]["end"]).timestamp() + DELAY)

"""Topics as tests write and read them: by Kafka's own client (librdkafka), not by Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


@dataclass(frozen=True)
class Message:
    """A message as it was read."""

    key: str | None
    data: bytes | None
    headers: dict[str, str | None] = field(default_factory=dict)
    timestamp: int = 0

    @property
    def value(self) -> str | None:
        return None if self.data is None else self.data.decode()


class Topics:
    """The topics of one test on a broker. `client`: further settings of clients, for example a login."""

    def __init__(self, servers: str, test: str, client: Mapping[str, str] | None = None) -> None:
        self.servers = servers
        self._client = {"bootstrap.servers": servers, **(client or {})}
        self._prefix = re.sub(r"\W+", "-", test)

    def name(self, topic: str) -> str:
        """The name of a topic of this test."""
        return f"{self._prefix}.{topic}"

    def options(self, **options: str) -> str:
        """An OPTIONS clause with the servers."""
        given = {"kafka.bootstrap.servers": self.servers, **options}
        return "OPTIONS (" + ", ".join(f"'{k}' '{_quoted(v)}'" for k, v in given.items()) + ")"

    def make(self, topic: str, partitions: int = 1, **settings: str) -> str:
        """Makes an empty topic; returns its name."""
        admin = AdminClient(self._client)
        new = NewTopic(self.name(topic), partitions, 1, config={k.replace("_", "."): v for k, v in settings.items()})
        for done in admin.create_topics([new]).values():
            done.result()
        return self.name(topic)

    def send(self, topic: str, values: Sequence[Any], about: Callable[[int], dict[str, Any]] | None = None) -> str:
        """Sends values (dictionaries as JSON) in order; `about` gives key, partition, timestamp (ms) and headers of a
        message by its number. Returns the topic's name."""
        producer = Producer(self._client)
        for number, value in enumerate(values):
            data = json.dumps(value) if isinstance(value, dict) else value
            producer.produce(self.name(topic), data, **({} if about is None else about(number)))
        assert producer.flush(60) == 0
        return self.name(topic)

    def read(self, topic: str, committed: bool = True) -> list[Message]:
        """All messages of a topic, partition by partition; with `committed`, without those of aborted transactions."""
        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            {
                **self._client,
                "group.id": "tests",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": level,
            }
        )
        found: list[Message] = []
        listed = consumer.list_topics(self.name(topic), 60).topics[self.name(topic)]
        for partition in sorted(listed.partitions):
            consumer.assign([TopicPartition(self.name(topic), partition, 0)])
            while (message := consumer.poll(60)) is not None and message.error() is None:
                heads = {k: None if v is None else v.decode() for k, v in message.headers() or ()}
                key = message.key()
                found.append(
                    Message(None if key is None else key.decode(), message.value(), heads, message.timestamp()[1])
                )
        consumer.close()
        return found


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")

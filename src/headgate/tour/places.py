"""Where the rows of the tour travel: in folders of Parquet files, or in the topics of a Kafka broker of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from headgate.feeder import FolderTarget
from headgate.feeder.broker import Broker
from headgate.feeder.feeder import FeedError, Target
from headgate.feeder.kafka import KafkaTarget
from headgate.spark.packages import KAFKA, KAFKA_BROKER, Package, PackageError, fetched


class NoBroker(Exception):
    """The tour cannot start a Kafka broker; the message says why and what to do."""


class TourPlace(ABC):
    """The place of one side's rows. It can be sent to the process of a feeder."""

    every: float
    """Seconds between two batches of a stream."""
    about: str
    """What both sides read, for the report."""
    source: str
    """The source that reads it."""

    @abstractmethod
    def target(self) -> Target:
        """Where a feeder sends rows."""

    @abstractmethod
    def options(self, stream: str) -> dict[str, str]:
        """The options of CREATE STREAM."""

    @abstractmethod
    def read(self, spark: Any, stream: str, schema: str) -> Any:
        """The streaming DataFrame of plain Structured Streaming."""

    @abstractmethod
    def make(self, streams: tuple[str, ...]) -> None:
        """Makes the place of all streams."""

    @abstractmethod
    def remove(self) -> None:
        """Removes the rows."""


@dataclass(frozen=True)
class FolderPlace(TourPlace):
    """A folder for each stream."""

    folder: str
    every = 1.0
    # Plain Structured Streaming is very slow with many small files.
    about = "files every second; both sides read the same files"
    source = "parquet"

    def target(self) -> Target:
        return FolderTarget(self.folder)

    def options(self, stream: str) -> dict[str, str]:
        return {"path": f"{self.folder}/{stream}"}

    def read(self, spark: Any, stream: str, schema: str) -> Any:
        return spark.readStream.schema(schema).parquet(f"{self.folder}/{stream}")

    def make(self, streams: tuple[str, ...]) -> None:
        for stream in streams:
            os.makedirs(f"{self.folder}/{stream}")

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class TopicPlace(TourPlace):
    """A topic for each stream: `<prefix><stream>`."""

    servers: str
    prefix: str
    every = 0.1
    about = "JSON messages of Kafka, sent every 100 ms; both sides read the same messages"
    source = "kafka"

    def target(self) -> Target:
        return KafkaTarget(self.servers, self.prefix)

    def options(self, stream: str) -> dict[str, str]:
        return {**self._options(stream), "value_format": "json"}

    def read(self, spark: Any, stream: str, schema: str) -> Any:
        rows = spark.readStream.format("kafka").options(**self._options(stream)).load()
        return rows.selectExpr(f"from_json(CAST(value AS STRING), '{schema}') AS row").selectExpr("row.*")

    def _options(self, stream: str) -> dict[str, str]:
        topics = {"subscribe": f"{self.prefix}{stream}", "startingOffsets": "earliest"}
        return {"kafka.bootstrap.servers": self.servers, **topics}

    def make(self, streams: tuple[str, ...]) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        for done in admin.create_topics([NewTopic(f"{self.prefix}{stream}", 1, 1) for stream in streams]).values():
            done.result()

    def remove(self) -> None:
        # The broker's data is removed as a whole.
        pass


@dataclass(frozen=True)
class TourPlaces:
    """`new` gives each side a new place; Spark needs these `packages` to read it."""

    new: Callable[[], TourPlace]
    packages: frozenset[Package] = frozenset()


@contextmanager
def tour_places(kafka: bool) -> Iterator[TourPlaces]:
    """Folders, or topics of a broker that runs as long as this block. NoBroker if it cannot be started."""
    if not kafka:
        yield TourPlaces(lambda: FolderPlace(tempfile.mkdtemp(prefix="headgate-demo-")))
        return
    with tempfile.TemporaryDirectory(prefix="headgate-demo-kafka-") as folder:
        broker = Broker(Path(folder))
        try:
            for package in (KAFKA, KAFKA_BROKER):
                fetched(package)
            broker.start()
            KafkaTarget(broker.servers).close()
        except (PackageError, FeedError, OSError) as error:
            broker.stop()
            raise NoBroker(str(error)) from error
        numbers = count(1)
        try:
            yield TourPlaces(lambda: TopicPlace(broker.servers, f"side-{next(numbers)}."), frozenset({KAFKA}))
        finally:
            broker.stop()

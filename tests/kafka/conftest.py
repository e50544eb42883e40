"""A Kafka broker for the tests of this folder: they skip where its jars or those of Spark's connector cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.feeder.broker import Broker
from headgate.spark.packages import AVRO, KAFKA, KAFKA_BROKER, PackageError, fetched
from tests.kafka.logins import guarded_broker
from tests.kafka.topics import Topics


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of this run, with all jars at hand."""
    try:
        for package in (KAFKA, AVRO, KAFKA_BROKER):
            fetched(package)
    except PackageError as error:
        pytest.skip(str(error))
    started = Broker(Path(tmp_path_factory.mktemp("kafka")))
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def strict_broker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that makes no topic by itself. `broker`: the jars are there."""
    del broker
    started = Broker(Path(tmp_path_factory.mktemp("strict")), settings={"auto.create.topics.enable": "false"})
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def guarded(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that asks for a login. `broker`: the jars are there."""
    del broker
    started = guarded_broker(Path(tmp_path_factory.mktemp("guarded")))
    yield started
    started.stop()


@pytest.fixture
def topics(broker: Broker, request: pytest.FixtureRequest) -> Topics:
    """Topics whose names belong to the test."""
    return Topics(broker.servers, request.node.name)

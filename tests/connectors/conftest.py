"""A session that only records has no broker to ask for its topics."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest

from headgate.connectors import kafka_cluster
from tests.connectors.recorder import Recorder

_topics = kafka_cluster._topics


class EveryTopic:
    """Contains every name."""

    def __contains__(self, topic: object) -> bool:
        return True


@pytest.fixture(autouse=True)
def recorded_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Recorder's cluster has every topic."""

    def topics(spark: Any, passed: dict[str, str]) -> Container[str]:
        return EveryTopic() if isinstance(spark, Recorder) else _topics(spark, passed)

    monkeypatch.setattr(kafka_cluster, "_topics", topics)

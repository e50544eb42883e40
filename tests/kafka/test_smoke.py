"""One run from Kafka to Kafka, which `make test` has time for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from tests.kafka.topics import Topics


@pytest.mark.spark
def test_from_kafka_to_kafka(spark: Any, tmp_path: Path, topics: Topics) -> None:
    topics.send("in", [{"k": "a", "v": 1}, "{bad", {"k": "b", "v": 2}])
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    source = topics.options(subscribe=topics.name("in"), startingOffsets="earliest", value_format="json")
    engine.execute(f"CREATE STREAM s (k STRING, v INT) USING kafka {source}")
    into = topics.options(topic=topics.make("out"), key="k")
    engine.execute(f"CREATE QUERY q INTO kafka {into} AS SELECT k, v + 1 AS v FROM s")
    engine.run_once()
    assert [(m.key, json.loads(m.value or "")) for m in topics.read("out")] == [
        ("a", {"k": "a", "v": 2}),
        ("b", {"k": "b", "v": 3}),
    ]
    assert engine.metrics()["dead_letters"] == {"s": 1}

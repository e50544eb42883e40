"""Brokers and topics that are not there: one line each, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.connectors import kafka_cluster, kafka_producer
from headgate.spark.results import SinkError
from headgate.spark.source_rows import SourceError
from tests.kafka.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOBODY = "127.0.0.1:1"
SILENT = f"no broker answers at {NOBODY} within 3 s; start it, or correct kafka.bootstrap.servers"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens where these tests look."""
    monkeypatch.setattr(kafka_cluster, "PATIENCE", 3.0)
    monkeypatch.setattr(kafka_producer, "PATIENCE", 3.0)


def _engine(spark: Any, tmp_path: Path) -> hg.Engine:
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / "0.json").write_text('{"k": "a", "v": 1}\n')
    engine = hg.Engine(checkpoint=str(tmp_path / "ck"), spark=spark)
    engine.execute(f"CREATE STREAM files (k STRING, v INT) USING json OPTIONS (path '{tmp_path / 'in'}')")
    return engine


def _refused(engine: hg.Engine) -> str:
    """What running it says, in one line."""
    with pytest.raises((SourceError, SinkError)) as raised:
        engine.run_once()
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    "options",
    [
        {"topic": "t"},
        {"topic": "t", "delivery": "exactly_once"},
        {"topic": "t", "value_format": "avro"},
        {"topic_column": "k"},
    ],
    ids=["driver", "transactions", "spark", "by column"],
)
def test_a_sink_without_a_broker(spark: Any, tmp_path: Path, topics: Topics, options: dict[str, str]) -> None:
    engine = _engine(spark, tmp_path)
    engine.execute(f"CREATE QUERY q INTO kafka {Topics(NOBODY, 'x').options(**options)} AS SELECT k, v FROM files")
    assert _refused(engine) == f"query q: sink kafka: {SILENT}"
    # Nothing is lost: the same checkpoint continues when there is a broker.
    again = _engine(spark, tmp_path)
    into = {name: topics.make("t") if name == "topic" else value for name, value in options.items()}
    if "topic_column" in into:
        return
    again.execute(f"CREATE QUERY q INTO kafka {topics.options(**into)} AS SELECT k, v FROM files")
    again.run_once()
    assert len(topics.read("t")) == 1


def test_a_source_without_a_broker(spark: Any, tmp_path: Path, topics: Topics) -> None:
    del topics
    engine = _engine(spark, tmp_path)
    engine.execute(
        f"CREATE STREAM s (v INT) USING kafka {Topics(NOBODY, 'x').options(subscribe='t', value_format='json')}"
    )
    engine.query("q", "SELECT v FROM s")
    assert _refused(engine) == f"stream s: source kafka: {SILENT}"


def test_topics_that_are_not_there(spark: Any, tmp_path: Path, topics: Topics) -> None:
    there = topics.make("sensors")
    for options, said in (
        (
            {"subscribe": topics.name("sensor")},
            f"there is no topic {topics.name('sensor')} on {topics.servers}; did you",
        ),
        ({"subscribe": f"{there},x"}, f"there is no topic x on {topics.servers}; "),
        ({"assign": json.dumps({"y": [0]})}, f"there is no topic y on {topics.servers}; "),
    ):
        engine = _engine(spark, tmp_path)
        engine.execute(f"CREATE STREAM s (v INT) USING kafka {topics.options(value_format='json', **options)}")
        engine.query("q", "SELECT v FROM s")
        assert _refused(engine).startswith(f"stream s: source kafka: {said}")

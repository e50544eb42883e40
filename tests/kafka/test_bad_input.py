"""Brokers and topics that are not there: one line each, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.connectors import kafka_cluster, kafka_producer
from headgate.feeder.broker import Broker
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


@pytest.mark.parametrize("value_format", ["json", "avro"], ids=["driver", "spark"])
def test_a_sink_whose_topic_nobody_makes(spark: Any, tmp_path: Path, strict_broker: Broker, value_format: str) -> None:
    topics = Topics(strict_broker.servers, f"strict-{value_format}")
    into = topics.options(topic=topics.name("t"), value_format=value_format)
    query = f"CREATE QUERY q INTO kafka {into} AS SELECT k, v FROM files"
    engine = _engine(spark, tmp_path)
    engine.execute(query)
    said = _refused(engine)
    assert said.startswith(f"query q: sink kafka: topic {topics.name('t')} on {topics.servers}: ")
    assert said.endswith("; make it with kafka-topics.sh --create, or correct the option topic")
    topics.make("t")
    again = _engine(spark, tmp_path)
    again.execute(query)
    again.run_once()
    assert len(topics.read("t")) == 1


@pytest.mark.parametrize("more", [{}, {"kafka.max.block.ms": "2000"}], ids=["driver", "spark"])
def test_a_topic_by_column_that_nobody_makes(
    spark: Any, tmp_path: Path, strict_broker: Broker, more: dict[str, str]
) -> None:
    topics = Topics(strict_broker.servers, f"column-{len(more)}")
    query = f"CREATE QUERY q INTO kafka {topics.options(topic_column='t', **more)}"
    query += f" AS SELECT k, '{topics.name('t')}' AS t FROM files"
    engine = _engine(spark, tmp_path)
    engine.execute(query)
    said = _refused(engine)
    assert said.startswith(f"query q: sink kafka: topic {topics.name('t')}")
    if more:
        # Of the driver's client only the broker's own words are known.
        assert "it does not exist; make it with kafka-topics.sh --create, or correct the column t;" in said
    topics.make("t")
    again = _engine(spark, tmp_path)
    again.execute(query)
    again.run_once()
    assert len(topics.read("t")) == 1, "the results are in the checkpoint"


def test_dead_letters_whose_topic_nobody_makes(spark: Any, tmp_path: Path, strict_broker: Broker) -> None:
    topics = Topics(strict_broker.servers, "letters")
    topics.make("in")
    topics.send("in", ["{bad"])
    place = {"subscribe": topics.name("in"), "startingOffsets": "earliest"}
    options = topics.options(value_format="json", dead_letter_topic="d", **place)
    engine = _engine(spark, tmp_path)
    engine.execute(f"CREATE STREAM s (v INT) USING kafka {options}")
    engine.query("q", "SELECT v FROM s")
    assert _refused(engine) == (
        f"stream s: source kafka: topic d on {topics.servers}: it does not exist; make it with kafka-topics.sh"
        " --create, or correct the option dead_letter_topic"
    )

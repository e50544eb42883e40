"""Kafka to Kafka: latency from the producer's time to the record in the output topic, beside plain and an expert.

1, 21 and 200 selections on all sides, and the 21 queries of 004 (selections, window aggregates, joins), which one
`foreachBatch` query cannot compute. One broker serves all sides, one after the other.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headgate.bench.kafka_sides import ExpertSide, HeadgateSide, KafkaWork, Place, PlainSide, Selection
from headgate.bench.workload import CLASSES, workload_21
from headgate.feeder.broker import Broker
from headgate.feeder.feed import Feed
from headgate.feeder.feeder import Feeder
from headgate.feeder.kafka import KafkaTarget
from headgate.feeder.process import FeederProcess
from headgate.feeder.workloads.readings import Readings
from headgate.outcome import Outcome
from headgate.simulation.arrivals import Constant
from headgate.spark.packages import AVRO, KAFKA, at_start
from headgate.spark.session import local_session

RATE = 100.0
"""Rows per second and topic."""
WARM, MEASURED = 20.0, 20.0
TOPICS = 27
GOALS = {"critical_p50_s": 0.15, "critical_p99_s": 0.4, "plain_to_headgate": 60.0}
RUNS = {
    "one": ("headgate", "plain", "expert"),
    "selections_21": ("headgate", "plain", "expert"),
    "classes_21": ("headgate", "plain"),
    "selections_200": ("headgate", "expert"),
}
"""The sides by workload; 200 plain streaming queries do not fit a small machine."""
_EVERY = 0.05
"""Seconds between two batches of the producer."""


def run() -> Outcome:
    """Runs every workload on its sides."""
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="headgate-bench-kafka-") as folder:
        broker = Broker(Path(folder))
        broker.start()
        try:
            for name, sides in RUNS.items():
                for side in sides:
                    measured |= {f"{name}_{side}_{key}": v for key, v in _side(broker, name, side).items()}
        finally:
            broker.stop()
    measured["critical_p50_s"] = measured["classes_21_headgate_critical_p50_s"]
    measured["critical_p99_s"] = measured["classes_21_headgate_critical_p99_s"]
    plain = measured["classes_21_plain_critical_p50_s"]
    measured["plain_to_headgate"] = plain / measured["critical_p50_s"]
    return Outcome(
        "kafka",
        "peers: Structured Streaming, one query each; one foreachBatch query for all selections",
        "21 queries over 27 topics: critical within 150 ms (p50) and 400 ms (p99), 60 times sooner than plain",
        GOALS,
        measured,
        _holds,
        {"rate": RATE, "topics": TOPICS, "warm_s": WARM, "measured_s": MEASURED, "producer_batch_s": _EVERY},
    )


def _holds(goals: Mapping[str, Any], measured: Mapping[str, Any]) -> bool:
    sooner = measured["plain_to_headgate"] >= goals["plain_to_headgate"]
    return bool(sooner and all(measured[key] <= goals[key] for key in ("critical_p50_s", "critical_p99_s")))


def work_of(name: str) -> KafkaWork:
    """The queries of a workload."""
    if name == "classes_21":
        work = workload_21()
        return KafkaWork(work.queries, work.classes, work.streams, {})
    count = {"one": 1, "selections_21": 21, "selections_200": 200}[name]
    streams = [f"s{n}" for n in range(min(count, TOPICS))]
    chosen = {f"q{n}": Selection(streams[n % len(streams)], _condition(n)) for n in range(count)}
    classes = list(CLASSES)
    return KafkaWork(
        {query: each.sql for query, each in chosen.items()},
        {query: classes[n % len(classes)] for n, query in enumerate(chosen)},
        streams,
        chosen,
    )


def _condition(number: int) -> str:
    """Five predicates, no two queries alike; about one row in ten passes."""
    return (
        f"temperature > {20 + number % 7} AND humidity < {35 + number % 17} AND humidity > {number % 5}"
        f" AND location <> 'location-{number % 20:03d}' AND temperature <= {37 + number % 4}"
    )


def _side(broker: Broker, name: str, side: str) -> dict[str, Any]:
    """Latencies (s) of one side by class, and the records per second that it wrote."""
    work = work_of(name)
    place = Place(broker.servers, f"{name}.{side}.")
    _make_topics(place, work)
    feed = FeederProcess(_feeder, place, tuple(work.streams))
    feed.prepare()
    spark = local_session(f"headgate-bench-{side}", at_start({KAFKA, AVRO}))
    try:
        system: HeadgateSide | PlainSide | ExpertSide
        if side == "headgate":
            system = HeadgateSide(spark, work, place, CLASSES)
        else:
            system = (PlainSide if side == "plain" else ExpertSide)(spark, work, place)
        feed.start()
        try:
            system.start()
            system.wait(WARM)
            since = time.time()
            system.wait(MEASURED)
        finally:
            feed.stop()
            system.stop()
    finally:
        spark.stop()
    return _figures(place, work, since, since + MEASURED)


def _figures(place: Place, work: KafkaWork, since: float, until: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    written = 0
    for cls in dict.fromkeys(work.classes.values()):
        queries = [name for name, of in work.classes.items() if of == cls]
        ages = np.array(_ages(place, queries, since, until))
        written += len(ages)
        p50, p99 = np.quantile(ages, [0.5, 0.99]) if len(ages) else (float("inf"), float("inf"))
        found |= {f"{cls}_p50_s": float(p50), f"{cls}_p99_s": float(p99)}
    return {**found, "records_per_s": written / (until - since)}


def _ages(place: Place, queries: Sequence[str], since: float, until: float) -> list[float]:
    """By record that appeared in the time: from the producer's time of its row until the broker had the record."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": place.servers, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    ages: list[float] = []
    for query in queries:
        consumer.assign([TopicPartition(place.sink(query), 0, 0)])
        while (message := consumer.poll(30.0)) is not None and message.error() is None:
            # The broker's own clock: topics have message.timestamp.type=LogAppendTime.
            appended = message.timestamp()[1] / 1000
            if since <= appended < until:
                ages.append(appended - json.loads(message.value() or b"")["arrived"])
    consumer.close()
    return ages


def _make_topics(place: Place, work: KafkaWork) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    names = [place.source(stream) for stream in work.streams], [place.sink(query) for query in work.queries]
    topics = [NewTopic(name, 1, 1) for name in names[0]]
    topics += [NewTopic(name, 1, 1, config={"message.timestamp.type": "LogAppendTime"}) for name in names[1]]
    admin = AdminClient({"bootstrap.servers": place.servers})
    for done in admin.create_topics(topics).values():
        done.result()


def _feeder(place: Place, streams: Sequence[str]) -> Feeder:
    feeds = [Feed(stream, Readings(), Constant(RATE)) for stream in streams]
    return Feeder(KafkaTarget(place.servers, place.source("")), feeds, seed=1, every=_EVERY, stamp="arrived")

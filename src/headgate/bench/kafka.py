"""Kafka to Kafka: latency from the producer's time to the record in the output topic, beside plain and an expert.

1, 21 and 200 selections on all sides, and the 21 queries of 004 (selections, window aggregates, joins), which one
`foreachBatch` query cannot compute. One broker serves all sides, one after the other.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from headgate.bench import UnknownBench
from headgate.bench.kafka_sides import KafkaEngine, KafkaExpert, KafkaPlain, KafkaWork, TopicNames, TopicSelection
from headgate.bench.kafka_topics import OutputTopics, make_topics
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
from headgate.spark.spark_errors import reason

TOPICS = 27
GOALS = {"critical_p50_s": 0.15, "critical_p99_s": 0.4, "plain_to_headgate": 60.0}
RUNS = {
    "one": ("plain", "expert", "headgate"),
    "selections_21": ("plain", "expert", "headgate"),
    "classes_21": ("plain", "headgate"),
    "selections_200": ("expert", "headgate", "plain"),
}
"""The sides by workload. 200 streaming queries come last: they may crash the JVM."""
_HEAP = {"spark.driver.memory": "2g"}
"""For all sides: 200 streaming queries need more than Spark's default."""
_EVERY = 0.05
"""Seconds between two batches of the producer."""
_BURST_SECONDS = 1.0
_QUIET, _LONGEST = 6.0, 60.0
"""A side is done with a burst if it writes nothing for `_QUIET` seconds; none is given more than `_LONGEST`."""
_OFTEN = 21
"""With more queries, the triggers of plain take longer than `_QUIET`."""


def run(
    seconds: float = 15.0,
    warm: float = 20.0,
    rate: float = 100.0,
    burst: float = 200_000.0,
    workloads: str = ",".join(RUNS),
    sides: str = "plain,expert,headgate",
) -> Outcome:
    """Runs every workload on its sides.

    - `seconds`, `warm`: time measured for each side, and time before it; `rate`: rows per second and topic
    - `burst`: rows that are sent at once at the end, in all; the rate at which a side processes them is its rows/s
    - `workloads`, `sides`: which ones, separated by commas
    """
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="headgate-bench-kafka-") as folder:
        broker = Broker(Path(folder))
        broker.start()
        try:
            for name in _chosen(workloads, RUNS):
                for side in (side for side in RUNS[name] if side in _chosen(sides, RUNS["one"])):
                    figures = _figures(_Side(broker, name, side, rate), warm, seconds, burst)
                    _report(name, side, figures)
                    measured |= {f"{name}_{side}_{key}": value for key, value in figures.items()}
        finally:
            broker.stop()
    return Outcome(
        "kafka",
        "peers: Structured Streaming, one query each; one foreachBatch query for all selections",
        "21 queries over 27 topics: critical within 150 ms (p50) and 400 ms (p99), 60 times sooner than plain",
        GOALS,
        {**_goal_figures(measured), **measured},
        _holds,
        {
            "rate": rate,
            "topics": TOPICS,
            "warm_s": warm,
            "measured_s": seconds,
            "producer_batch_s": _EVERY,
            "burst_rows": burst,
            "trigger_cores": None,
        },
    )


def _figures(side: _Side, warm: float, seconds: float, burst: float) -> dict[str, Any]:
    """The figures of a side; infinite latencies if it fails, which 200 streaming queries may do on a small machine."""
    try:
        return side.run(warm, seconds, burst)
    except Exception as error:
        print(f"the run failed: {reason(error)}", file=sys.stderr, flush=True)
        return {f"{cls}_{share}_s": inf for cls in CLASSES for share in ("p50", "p99")}


def _chosen(names: str, known: Collection[str]) -> list[str]:
    """Names separated by commas; UnknownBench if one is not known."""
    found = [name.strip() for name in names.split(",")]
    for name in found:
        if name not in known:
            raise UnknownBench(f"bench kafka has no {name}; there are {', '.join(known)}")
    return found


def _report(name: str, side: str, figures: Mapping[str, float]) -> None:
    """Prints the figures of a side to standard error: the whole bench takes a quarter of an hour."""
    shown = ", ".join(f"{key} {value:,.3f}" for key, value in figures.items())
    print(f"{name}, {side}: {shown}", file=sys.stderr, flush=True)


def _goal_figures(measured: Mapping[str, Any]) -> dict[str, float]:
    """The figures of the goal; NaN where a side was left out."""
    found = {key: measured.get(f"classes_21_headgate_{key}", np.nan) for key in ("critical_p50_s", "critical_p99_s")}
    plain = measured.get("classes_21_plain_critical_p50_s", np.nan)
    return {**found, "plain_to_headgate": plain / found["critical_p50_s"]}


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
    chosen = {f"q{n}": TopicSelection(streams[n % len(streams)], _condition(n)) for n in range(count)}
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


class _Side:
    """One side of one workload, on separate topics."""

    def __init__(self, broker: Broker, name: str, side: str, rate: float) -> None:
        self._side = side
        self._work = work_of(name)
        self._rate = rate
        self._place = TopicNames(broker.servers, f"{name}.{side}.")

    def run(self, warm: float, seconds: float, burst: float) -> dict[str, Any]:
        """Latencies (s) by class, records written per second, and rows per second of a burst."""
        work, place = self._work, self._place
        make_topics(place, work)
        feed = FeederProcess(_feeder, place, tuple(work.streams), self._rate, inf)
        burst_feed = FeederProcess(
            _feeder, place, tuple(work.streams), burst / len(work.streams) / _BURST_SECONDS, _BURST_SECONDS
        )
        feed.prepare()
        outputs = OutputTopics(place, work)
        spark = local_session(f"headgate-bench-{self._side}", {**at_start({KAFKA, AVRO}), **_HEAP})
        try:
            system = self._system(spark)
            feed.start()
            try:
                system.start()
                system.wait(warm)
                since = time.time()
                system.wait(seconds)
                until = time.time()
                feed.stop()
                drained = self._burst(burst_feed, outputs) if burst and self._takes_bursts else None
            finally:
                feed.stop()
                burst_feed.stop()
                system.stop()
        finally:
            spark.stop()
        found = {"rows_per_s": drained} if drained is not None else {}
        return {**_latencies(work, outputs, since, until), **found}

    @property
    def _takes_bursts(self) -> bool:
        """Whether all sides can run the workload, and this one writes often enough for its end to be detected."""
        return bool(self._work.selections) and (self._side != "plain" or len(self._work.queries) <= _OFTEN)

    def _system(self, spark: Any) -> KafkaEngine | KafkaPlain | KafkaExpert:
        if self._side == "headgate":
            return KafkaEngine(spark, self._work, self._place, CLASSES)
        return (KafkaPlain if self._side == "plain" else KafkaExpert)(spark, self._work, self._place)

    def _burst(self, feed: FeederProcess, outputs: OutputTopics) -> float:
        """Rows per second, from the first row sent until the last record that results from the burst."""
        feed.prepare()
        outputs.wait_until_quiet(_QUIET, _LONGEST)
        began = time.time()
        feed.start()
        sent = -1
        while (rows := feed.progress().rows) > sent:
            sent = rows
            time.sleep(0.5)
        outputs.wait_until_quiet(_QUIET, _LONGEST)
        return float(sent / (outputs.last() - began))


def _latencies(work: KafkaWork, outputs: OutputTopics, since: float, until: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    written = 0
    for cls in dict.fromkeys(work.classes.values()):
        ages = np.array(outputs.ages([name for name, of in work.classes.items() if of == cls], since, until))
        written += len(ages)
        p50, p99 = np.quantile(ages, [0.5, 0.99]) if len(ages) else (inf, inf)
        found |= {f"{cls}_p50_s": float(p50), f"{cls}_p99_s": float(p99)}
    return {**found, "records_per_s": written / (until - since)}


def _feeder(place: TopicNames, streams: Sequence[str], rate: float, seconds: float) -> Feeder:
    feeds = [Feed(stream, Readings(), Constant(rate)) for stream in streams]
    target = KafkaTarget(place.servers, place.source(""))
    return Feeder(target, feeds, seed=1, every=_EVERY, seconds=seconds, stamp="arrived")

"""Kafka to Kafka: latency from the producer's time to the record in the output topic, beside plain and an expert.

1, 21 and 200 selections on all sides, and the 21 queries of 004 (selections, window aggregates, joins), which one
`foreachBatch` query cannot compute. One broker serves all sides, one after the other.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Mapping
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from headgate.bench import UnknownBench
from headgate.bench.kafka_run import EVERY, KafkaRun
from headgate.bench.kafka_sides import KafkaWork, TopicNames, TopicSelection
from headgate.bench.workload import CLASSES, workload_21
from headgate.feeder.broker import Broker
from headgate.outcome import Outcome
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
_MANY = 100
"""With so many queries, a trigger of plain takes longer than `seconds`: all sides are measured for `many_seconds`."""


def run(
    seconds: float = 15.0,
    many_seconds: float = 60.0,
    warm: float = 20.0,
    rate: float = 100.0,
    burst: float = 200_000.0,
    workloads: str = ",".join(RUNS),
    sides: str = "plain,expert,headgate",
) -> Outcome:
    """Runs every workload on its sides.

    - `seconds`, `warm`: time measured for each side, and time before it; `many_seconds`: the same with 200 queries;
      `rate`: rows per second and topic
    - `burst`: rows that are sent at once at the end, in all; the rate at which a side processes them is its rows/s
    - `workloads`, `sides`: which ones, separated by commas
    """
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="headgate-bench-kafka-") as folder:
        broker = Broker(Path(folder))
        try:
            broker.start()
            for name in _chosen(workloads, RUNS):
                for side in (side for side in RUNS[name] if side in _chosen(sides, RUNS["one"])):
                    figures = _figures(broker, name, side, rate, warm, (seconds, many_seconds), burst)
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
            "measured_with_200_queries_s": many_seconds,
            "producer_batch_s": EVERY,
            "burst_rows": burst,
            "trigger_cores": None,
        },
    )


def _figures(
    broker: Broker, name: str, side: str, rate: float, warm: float, seconds: tuple[float, float], burst: float
) -> dict[str, Any]:
    """The figures of a side; infinite latencies if it fails, which 200 streaming queries may do on a small machine."""
    work = work_of(name)
    measured = KafkaRun(side, work, TopicNames(broker.servers, f"{name}.{side}."), rate)
    try:
        return measured.run(warm, seconds[len(work.queries) >= _MANY], burst)
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

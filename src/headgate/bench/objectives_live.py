"""The change of objectives on Spark: the workload of `objectives.py`, with functions that wait as long as they would
compute, so that other load on the machine counts little."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.bench.objectives import AFTER, BURST, INTERVAL, MODELS, OBJECTIVES, RATE, ROW_BYTES, WITHIN, Interval
from headgate.engine import Engine
from headgate.feeder.engine_target import EngineTarget
from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators, Feed
from headgate.feeder.feeder import Feeder
from headgate.simulation.arrivals import Moments
from headgate.spark.session import local_session

BEFORE = 40
"""Number of intervals before the change: fewer than in one process, where time costs nothing."""
EVERY = 0.1
"""Seconds between two files."""
PAYLOAD = "x" * round(ROW_BYTES)
WARM_UP = pa.table(
    {"ts": pa.array([0] * 100, EVENT_TIME), "reading": pa.array(range(100), pa.int32()), "payload": [PAYLOAD] * 100}
)
KEPT = round(100 * MODELS["narrow"].selectivity)
SELECT = f"SELECT look_up(reading) AS reading, payload FROM readings WHERE narrow(reading) < {KEPT}"
"""Two operators: two conditions of one WHERE would be one, and policies would not differ."""


def run_seeds(policy: str, seeds: int) -> list[list[Interval]]:
    """A run for each seed, one after the other in one session."""
    spark = local_session("headgate-bench-objectives")
    try:
        return [run_policy(spark, policy, seed, BEFORE) for seed in range(1, seeds + 1)]
    finally:
        spark.stop()


def run_policy(spark: Any, policy: str, seed: int, before: int) -> list[Interval]:
    """One run of a policy, with so many intervals before the change: the metrics of each interval."""
    engine = Engine(f"{policy}{',' if ':' in policy else ':'}interval={INTERVAL},seed={seed}", spark=spark)
    feed = Feed("readings", BurstReadings(), BurstArrivals())
    target = EngineTarget(engine, [feed])
    for name in MODELS:
        engine.execute(f"CREATE FUNCTION {name}(reading INT) RETURNS INT AS '{__name__}:{name}';")
    engine.query("found", SELECT)
    engine.objectives = OBJECTIVES[0]
    feeder = Feeder(target, [feed], seed=seed, every=EVERY)
    try:
        engine.start()
        # The first epochs take seconds; rows that arrived meanwhile would wait through the first intervals.
        target.send("readings", WARM_UP)
        _totals(engine, 0.0)
        feeder.start()
        return _observe(engine, before)
    finally:
        feeder.stop()
        engine.stop()
        target.remove()


def _observe(engine: Engine, before: int) -> list[Interval]:
    """The metrics of each interval, from totals that the network reports about twice a second."""
    found: list[Interval] = []
    known = _totals(engine, 0.0)
    since = began = time.monotonic()
    for number in range(before + WITHIN + AFTER):
        if number == before:
            engine.objectives = OBJECTIVES[1]
        engine.wait(max(0.0, began + (number + 1) * INTERVAL - time.monotonic()))
        totals, now = _totals(engine, known["results"]), time.monotonic()
        found.append(_interval(known, totals, now - since))
        known, since = totals, now
    return found


def _totals(engine: Engine, results: float) -> Mapping[str, float]:
    """The totals that the network reports, as soon as they have other results than so many."""
    while True:
        found: Mapping[str, float] = engine.metrics().get("performance", {})
        if found.get("results", results) != results:
            return found
        if engine.wait(EVERY):
            raise RuntimeError("the engine has stopped in the middle of the run")


def _interval(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> Interval:
    change = {name: after[name] - before[name] for name in ("results", "delay", "queued_rows")}
    if change["results"] <= 0:
        raise RuntimeError("the network was restored in the middle of the run, and its totals began anew; run it again")
    return Interval(change["delay"] / change["results"], change["queued_rows"] / seconds)


# The stream ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BurstArrivals:
    """Random arrivals without end: in the first second of each interval those of a burst."""

    @property
    def rate(self) -> float:
        return RATE

    def blocks(self, random: np.random.Generator) -> Iterator[Moments]:
        second = 0
        while True:
            count = int(random.poisson(BURST if second % INTERVAL == 0 else RATE))
            yield second + np.sort(random.random(count))
            second += 1

    def times(self, random: Random) -> Iterator[float]:
        for block in self.blocks(np.random.default_rng(random.getrandbits(32))):
            yield from block.tolist()


@dataclass(frozen=True)
class BurstReadings:
    """Rows with a reading from 0 to 99, as wide as those of the models."""

    event_time = None
    schema = pa.schema({"ts": EVENT_TIME, "reading": pa.int32(), "payload": pa.string()})

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        readings = (draws["reading"].random(len(arriving)) * 100).astype(np.int32)
        return [arriving.ts, pa.array(readings), pa.repeat(PAYLOAD, len(arriving))]


# The functions ------------------------------------------------------------------------------------------------


def narrow(value: pa.Array) -> pa.Array:
    """The first operator, which drops most rows."""
    return _wait_for("narrow", value)


def look_up(value: pa.Array) -> pa.Array:
    """The second operator, which takes longer."""
    return _wait_for("look_up", value)


def _wait_for(name: str, value: pa.Array) -> pa.Array:
    time.sleep(MODELS[name].expected([1.0]).cost * len(value))
    return value

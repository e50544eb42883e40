"""The day of changing load live on Spark: the same script, the policies one after the other.

The functions of the queries wait as long as they would compute, as if they called a service. So the day tests the
decisions, and a second thread helps as a second processor would, whatever else the machine does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.bench.day_script import (
    CLASSES,
    COMES,
    DAY,
    DEMANDS,
    GOES,
    OBJECTIVES,
    OBJECTIVES_CHANGE,
    SLOW_FROM,
    SLOW_UNTIL,
    SLOWER,
    VISITOR,
    DayRun,
    outcome,
    rate,
)
from headgate.engine import Engine
from headgate.feeder.engine_target import EngineTarget
from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators, Feed
from headgate.feeder.feeder import Feeder
from headgate.outcome import Outcome
from headgate.simulation.arrivals import Moments
from headgate.spark.session import local_session

FIXED = ("cqc",)
"""The fixed policy that does best in virtual time (`headgate bench day`)."""
WARM_UP = 20.0
"""Seconds before the day begins, with the load of its beginning."""
EVERY = 0.1
SAMPLE = 1.0
COSTS = {"inspect": 2.2, "score": 0.8, "grade": 1.0, "scan": 18.0, "visit": 3.0}
"""Milliseconds that the functions take for a row: those of the operators of the simulated day."""
QUERIES = {
    "alert": "SELECT ts, reading FROM events WHERE inspect(reading, effort) < 16",
    "dashboard": "SELECT ts, reading FROM clicks WHERE grade(score(reading, effort), effort) < 50",
    "history": "SELECT ts, reading FROM logs WHERE scan(reading, effort) < 10",
    VISITOR: "SELECT ts, reading FROM visits WHERE visit(reading, effort) < 30",
}
STREAMS = ("events", "clicks", "logs", "visits")


def run(minutes: float) -> Outcome:
    """Runs the day once under every policy, each in a separate session."""
    days: dict[str, list[DayRun]] = {}
    for policy in ("auto", *FIXED):
        spark = local_session(f"headgate-bench-day-{policy}")
        try:
            days[policy] = [run_day(spark, policy, minutes)]
        finally:
            spark.stop()
    setup = {"minutes": minutes, "warm_up_s": WARM_UP, "costs_ms": COSTS, "cores": os.cpu_count()}
    return outcome("day-live", "live on Spark: fixed policies under the same load", days, setup)


def run_day(spark: Any, policy: str, minutes: float) -> DayRun:
    """The day under one policy."""
    speed = DAY / (60 * minutes)
    engine = Engine(policy, spark=spark)
    engine.execute("".join(f"CREATE CLASS {name} WITH (priority = {rank});" for name, rank in CLASSES.items()))
    feeds = [Feed(stream, DayRows(stream, speed), DayArrivals(stream, speed)) for stream in STREAMS]
    target = EngineTarget(engine, feeds)
    for name in COSTS:
        engine.execute(f"CREATE FUNCTION {name}(reading INT, effort DOUBLE) RETURNS INT AS '{__name__}:{name}';")
    for name in QUERIES:
        if name != VISITOR:
            _add_query(engine, name)
    engine.objectives = OBJECTIVES[0]
    feeder = Feeder(target, feeds, every=EVERY)
    try:
        engine.start()
        feeder.start()
        return _follow_script(engine, time.time() + WARM_UP, speed)
    finally:
        feeder.stop()
        engine.stop()
        target.remove()


def _add_query(engine: Engine, name: str) -> None:
    demand = DEMANDS[name]
    spec: dict[str, Any] = {"latency": f"{1000 * (demand.longest or 0.0):g} ms"}
    if demand.accuracy is not None:
        spec["accuracy"] = demand.accuracy
    engine.query(name, QUERIES[name], cls=demand.cls, spec=spec)


def _follow_script(engine: Engine, began: float, speed: float) -> DayRun:
    """Follows the script from the beginning of the day, and records latencies and decisions."""
    run = DayRun()
    todo = [
        (COMES, lambda: _add_query(engine, VISITOR)),
        (GOES, lambda: engine.drop(VISITOR)),
        (OBJECTIVES_CHANGE, lambda: setattr(engine, "objectives", OBJECTIVES[1])),
    ]
    engine.wait(max(0.0, began - time.time()))
    while (now := (time.time() - began) * speed) < DAY:
        while todo and now >= todo[0][0]:
            todo.pop(0)[1]()
        for name, figures in engine.metrics()["queries"].items():
            latency = figures["spec"]["latency"] if figures["spec"] is not None else None
            if latency is not None:
                run.record(now, name, latency["measured"], latency["met"])
        engine.wait(SAMPLE)
    for made in engine.decisions():
        # Without the decisions of policies inside a class: there are many, and they concern only that class.
        if "of" not in made and made["at"] >= began:
            run.record_decision((made["at"] - began) * speed, made)
    return run


# The streams --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DayArrivals:
    """The arrivals of a stream until the end of the day: the number of rows that the script sets for each second,
    evenly within it."""

    stream: str
    speed: float

    @property
    def rate(self) -> float:
        return max(rate(self.stream, 0.0), 1.0)

    def blocks(self, random: np.random.Generator) -> Iterator[Moments]:
        second = 0
        # It must end: the feeder looks for the next row of a stream, and there is none once the visitor is gone.
        while (now := float(_script_time(second, self.speed))) < DAY:
            count = round(rate(self.stream, now))
            yield second + np.arange(count) / max(count, 1)
            second += 1

    def times(self, random: Random) -> Iterator[float]:
        for block in self.blocks(np.random.default_rng(0)):
            yield from block.tolist()


@dataclass(frozen=True)
class DayRows:
    """Rows with a reading from 0 to 99, and the factor by which they slow functions down (`effort`)."""

    stream: str
    speed: float
    event_time = "ts"
    schema = pa.schema({"ts": EVENT_TIME, "reading": pa.int32(), "effort": pa.float64()})

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        now = _script_time(arriving.elapsed, self.speed)
        slow = (now >= SLOW_FROM) & (now < SLOW_UNTIL) if self.stream == "clicks" else np.zeros(len(now), bool)
        value = (draws["value"].random(len(arriving)) * 100).astype(np.int32)
        return [arriving.ts, pa.array(value), pa.array(np.where(slow, SLOWER, 1.0))]


def _script_time(elapsed: Any, speed: float) -> Any:
    return np.maximum(0.0, (elapsed - WARM_UP) * speed)


# The functions ------------------------------------------------------------------------------------------------


def inspect(value: pa.Array, effort: pa.Array) -> pa.Array:
    """The function of the alert."""
    return _sleep_for("inspect", value, effort)


def score(value: pa.Array, effort: pa.Array) -> pa.Array:
    """The function that gets slower."""
    return _sleep_for("score", value, effort)


def grade(value: pa.Array, effort: pa.Array) -> pa.Array:
    """Follows `score` in the dashboard; takes the same time for every row."""
    time.sleep(COSTS["grade"] / 1000 * len(effort))
    return value


def scan(value: pa.Array, effort: pa.Array) -> pa.Array:
    """The function of the report."""
    return _sleep_for("scan", value, effort)


def visit(value: pa.Array, effort: pa.Array) -> pa.Array:
    """The function of the query that is added and dropped."""
    return _sleep_for("visit", value, effort)


def _sleep_for(function: str, value: pa.Array, effort: pa.Array) -> pa.Array:
    """Sleeps for the cost of the function times the effort of each row, and returns the values."""
    time.sleep(COSTS[function] / 1000 * (pc.sum(effort).as_py() or 0.0))
    return value

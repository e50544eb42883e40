"""The input of both sides of the tour: the queries, the rows, and the timeline of events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import pyarrow as pa

from headgate.feeder import Bursts, Feed, Feeder, Poisson
from headgate.feeder.feed import ArrivingRows, ColumnGenerators
from headgate.feeder.workloads.sensors import Sensors, WeatherStations
from headgate.tour.functions import POISON
from headgate.tour.places import TourPlace

SEED = 7
REPORTS = 7
CALM, BURST = 0.2, 1.6
"""Load of the reports in cores: normally, and during a burst."""
WEATHER = 200.0
SENT = "sent"
"""The column with the time at which a row was sent."""
STREAMS = ("sensors", "weather")
CLASSES = ("critical", "dashboard", "report")
UPDATING = ("readings",)
"""Queries that update earlier answers."""
FIRST_POLICY, SECOND_POLICY = "rr", "cqc"


@dataclass(frozen=True)
class TourQuery:
    """A query of the tour."""

    name: str
    cls: str
    select: str


def script() -> tuple[str, list[TourQuery]]:
    """The statements before the queries, and the queries."""
    text = files("headgate.tour").joinpath("forest.sql").read_text(encoding="utf-8")
    head, _, _ = text.partition("CREATE QUERY")
    found = re.findall(r"^CREATE QUERY (\w+) CLASS (\w+) AS\n(.*?);$", text, re.M | re.S)
    return head, [TourQuery(*parts) for parts in found]


@dataclass(frozen=True)
class Timeline:
    """The events of a side, in seconds after its start; `rate` and `peak` are in readings per second.

    There are two bursts. Between them, first a reading arrives on which a function raises, then the policy changes.
    """

    seconds: float
    rate: float
    peak: float

    @classmethod
    def of(cls, seconds: float, cost: float) -> Timeline:
        """For queries that take `cost` seconds of a core per reading."""
        return cls(seconds, CALM / cost, BURST / cost)

    @property
    def bursts(self) -> tuple[tuple[float, float], tuple[float, float]]:
        at = self.seconds
        return (0.2 * at, 0.32 * at), (0.62 * at, 0.74 * at)

    @property
    def poison(self) -> float:
        return 0.44 * self.seconds

    @property
    def change(self) -> float:
        return 0.5 * self.seconds

    def arrivals(self) -> Bursts:
        """The arrival process of the sensors."""
        phases: list[tuple[float, float]] = []
        moment = 0.0
        for start, end in self.bursts:
            phases += [((start - moment) * self.rate, self.rate), ((end - start) * self.peak, self.peak)]
            moment = end
        phases.append(((self.seconds - moment) * self.rate, self.rate))
        return Bursts(phases, poisson=True)


class PoisonedSensors(Sensors):
    """Sensors, one of whose readings is impossible: the first after `moment` seconds."""

    def __init__(self, seed: int, moment: float) -> None:
        super().__init__(seed)
        self._moment = moment
        self._done = False

    def rows(self, arriving: ArrivingRows, draws: ColumnGenerators) -> Sequence[pa.Array]:
        columns = list(super().rows(arriving, draws))
        late = np.flatnonzero(arriving.elapsed >= self._moment)
        if len(late) and not self._done:
            self._done = True
            temperature = columns[2].to_numpy().copy()
            temperature[late[0]] = POISON
            columns[2] = pa.array(temperature)
        return columns


def declarations(place: TourPlace) -> list[tuple[str, str, str]]:
    """For each stream its name, its columns as Spark declares them, and its CREATE STREAM statement."""
    feeds = [Feed("sensors", Sensors(0), Poisson(1.0)), Feed("weather", WeatherStations(), Poisson(1.0))]
    from headgate.graph.types import sql_name

    return [
        (
            feed.stream,
            ", ".join([*(f"{column.name} {sql_name(column.type)}" for column in feed.maker.schema), f"{SENT} DOUBLE"]),
            feed.declaration(place.source, place.options(feed.stream), "200 MILLISECONDS", {SENT: "DOUBLE"}),
        )
        for feed in feeds
    ]


def make_feeder(place: TourPlace, timeline: Timeline) -> Feeder:
    """Sends the rows of the tour: the same for both sides, at the same times after the start."""
    feeds = [
        Feed("sensors", PoisonedSensors(SEED, timeline.poison), timeline.arrivals()),
        Feed("weather", WeatherStations(), Poisson(WEATHER)),
    ]
    return Feeder(place.target(), feeds, seed=SEED, every=place.every, seconds=timeline.seconds, stamp=SENT)


def make_warming_feeder(place: TourPlace, timeline: Timeline) -> Feeder:
    """Sends other rows at the calm rate, while a side starts and Spark compiles its code."""
    feeds = [
        Feed("sensors", Sensors(SEED + 1), Poisson(timeline.rate)),
        Feed("weather", WeatherStations(), Poisson(WEATHER)),
    ]
    return Feeder(place.target(), feeds, seed=SEED + 1, every=place.every, stamp=SENT)

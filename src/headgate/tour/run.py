"""Runs the tour: both sides one after the other over the same rows, while the screen shows them."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

from headgate.cli.live_view import duration
from headgate.engine import Engine
from headgate.feeder import FeederProcess
from headgate.spark.packages import at_start
from headgate.spark.session import local_session
from headgate.tour.answers import due
from headgate.tour.functions import seconds_per_row
from headgate.tour.outcome import SideOutcome, TourOutcome
from headgate.tour.places import TourPlace, TourPlaces
from headgate.tour.plan import (
    BURST,
    CLASSES,
    FIRST_POLICY,
    REPORTS,
    SECOND_POLICY,
    SEED,
    STREAMS,
    UPDATING,
    Timeline,
    make_feeder,
    make_warming_feeder,
    script,
)
from headgate.tour.screen import Screen, SideView, TourView
from headgate.tour.sides import LATENCY, HeadgateSide, PlainSide, Side

_GRACE = 2.0
"""Seconds that a side has to answer after its last row."""
_TICK = 0.25
_RECENT = 2.0
_WARM = 30.0
"""Most seconds that a side has to start."""


ServedPage = Callable[[Engine], AbstractContextManager[str]]


class Tour:
    """One tour. `page` serves the page of the running engine and returns its address; `places` are for its rows."""

    def __init__(self, screen: Screen, view: TourView, seconds: float, page: ServedPage, places: TourPlaces) -> None:
        self._screen = screen
        self._view = view
        self._page = page
        self._places = places
        self._read = ""
        self._head, self._queries = script()
        self._names = {cls: [query.name for query in self._queries if query.cls == cls] for cls in CLASSES}
        cost = seconds_per_row()
        self._timeline = Timeline.of(seconds, cost * REPORTS)
        self._cost = cost
        self._began = time.monotonic()
        view.plain.doing = f"{len(self._queries)} streaming queries"
        view.headgate.doing = "one Spark job"

    def run(self) -> TourOutcome:
        """Runs both sides; returns the measurements."""
        self._say("Spark starts")
        spark = local_session("headgate-demo", at_start(self._places.packages))
        try:
            plain, before = self._side(self._view.plain, lambda place: PlainSide(spark, self._queries, place))
            made: list[HeadgateSide] = []

            def headgate(place: TourPlace) -> Side:
                made.append(HeadgateSide(spark, self._head, self._queries, place))
                return made[0]

            ours, side = self._side(self._view.headgate, headgate)
            memory = made[0].engine.metrics().get("memory", {})
            about = self._about(spark)
        finally:
            spark.stop()
        both = (before.answers, side.answers)
        # A query that updates earlier answers has no fixed number of them, and a failed query has no more answers due.
        owing = [
            query.name for query in self._queries if query.name not in {*UPDATING, *plain.failures, *ours.failures}
        ]
        owed = due(both, owing, self._timeline.seconds)
        plain, ours = (
            replace(outcome, ages={c: a.with_overdue(n, owed, self._timeline.seconds) for c, n in self._names.items()})
            for outcome, a in zip((plain, ours), both, strict=True)
        )
        one, two = (side.answers.during(self._names["critical"], *burst) for burst in self._timeline.bursts)
        return TourOutcome(
            self._timeline,
            plain,
            ours,
            (FIRST_POLICY, SECOND_POLICY),
            (one, two),
            len(self._queries),
            int(memory.get("peak", 0)),
            int(memory.get("limit", 0)),
            int(memory.get("spilled_bytes", 0)),
            about,
            list(self._view.events),
        )

    def _side(self, view: SideView, make: Callable[[TourPlace], Side]) -> tuple[SideOutcome, Side]:
        place = self._places.new()
        place.make(STREAMS)
        self._read = place.about
        warming = FeederProcess(make_warming_feeder, place, self._timeline)
        feeder = FeederProcess(make_feeder, place, self._timeline)
        side: Side | None = None
        try:
            view.state = "starts"
            self._say(f"{view.title} starts")
            warming.start()
            side = make(place)
            side.start()
            feeder.prepare()
            patience = time.monotonic() + _WARM
            while not side.warm() and time.monotonic() < patience:
                self._wait()
            warming.stop()
            with ExitStack() as serving:
                if isinstance(side, HeadgateSide):
                    self._view.page = serving.enter_context(self._page(side.engine))
                    self._say(f"the page of this engine: {self._view.page}")
                outcome = self._measure(view, side, feeder)
                self._view.page = None
        finally:
            warming.stop()
            feeder.stop()
            view.state = "stops"
            if side is not None:
                self._wait(0.0)
                side.stop()
            place.remove()
        view.state = "done"
        return outcome, side

    def _measure(self, view: SideView, side: Side, feeder: FeederProcess) -> SideOutcome:
        """Sends the rows and watches the side until the last of them is sent."""
        planned = self._planned(side)
        view.state, view.seconds = "runs", self._timeline.seconds
        side.answers.began = time.time()
        feeder.start()
        began = time.monotonic()
        if isinstance(side, HeadgateSide):
            view.doing = f"one Spark job, policy {side.engine.policy}"
        failures: dict[str, str] = {}
        moments: list[float] = []
        waiting: list[float] = []
        queued: list[float] = []
        sent = 0
        second = 0.0
        while (elapsed := time.monotonic() - began) < self._timeline.seconds + _GRACE:
            view.elapsed = min(elapsed, self._timeline.seconds)
            while planned and elapsed >= planned[0][0]:
                self._say(planned.pop(0)[1]())
            for name, error in side.failures().items():
                if name not in failures:
                    failures[name] = error
                    self._say(f"query {name} fails, the others go on: {error}")
            queues = side.queues()
            if queues is not None:
                moments.append(view.elapsed)
                waiting.append(float(queues.rows))
                queued.append(float(queues.bytes))
                view.queued_bytes = queues.bytes
            if elapsed >= second + 1 and elapsed <= self._timeline.seconds + 0.5:
                rows = feeder.progress().rows
                view.rates.append((rows - sent) / (elapsed - second))
                sent, second = rows, elapsed
                self._update(view, side, queues.rows if queues is not None else None)
            if isinstance(side, HeadgateSide):
                view.doing = f"one Spark job, policy {side.engine.policy}"
            self._wait(view=view)
        side.answers.ends = time.time()
        self._update(view, side, None)
        progress = feeder.progress()
        return SideOutcome(
            side.title,
            progress.rows,
            progress.worst_lag,
            {},
            {cls: side.answers.curve(self._names[cls], self._timeline.seconds) for cls in CLASSES},
            failures,
            moments,
            waiting,
            queued,
        )

    def _planned(self, side: Side) -> list[tuple[float, Callable[[], str]]]:
        """The planned events: the second, and a function that triggers the event and returns its text."""
        timeline = self._timeline
        burst = (
            f"burst: {timeline.peak:,.0f} readings/s; the reports alone would need {BURST:.1f} cores"
            f" of {os.cpu_count()}"
        )
        planned: list[tuple[float, Callable[[], str]]] = []
        for start, end in timeline.bursts:
            planned += [(start, lambda: burst), (end, lambda: "the burst ends")]
        planned.append(
            (timeline.poison, lambda: "a reading of -1000 degrees arrives: the function of query abroad raises")
        )
        if isinstance(side, HeadgateSide):

            def change() -> str:
                side.engine.policy = SECOND_POLICY
                return f"policy {FIRST_POLICY} (all queries in turn) becomes {SECOND_POLICY} (classes by priority)"

            planned.append((timeline.change, change))
        return sorted(planned, key=lambda item: item[0])

    def _update(self, view: SideView, side: Side, waiting: float | None) -> None:
        now = time.time()
        for cls, names in self._names.items():
            view.means[cls] = side.answers.ages(names).mean
            if view.state == "runs":
                view.ages.setdefault(cls, []).append(side.answers.ages(names, now - _RECENT).mean)
        if waiting is not None:
            view.waiting.append(waiting)

    def _say(self, text: str) -> None:
        self._view.clock = time.monotonic() - self._began
        self._screen.say(text)

    def _wait(self, seconds: float = _TICK, view: SideView | None = None) -> None:
        self._view.clock = time.monotonic() - self._began
        self._screen.show(view)
        time.sleep(seconds)

    def _about(self, spark: Any) -> dict[str, str]:
        timeline = self._timeline
        return {
            "rows": f"sensors and weather stations, seed {SEED}, Poisson arrivals, {self._read}"
            " at the same times after their start",
            "plain": f"{len(self._queries)} queries of Structured Streaming with foreachBatch, as soon as possible;"
            " functions as Arrow functions; in the session that Headgate makes, whose settings are faster than Spark's"
            " defaults",
            "Headgate": f"one engine, policy {FIRST_POLICY}, from second {timeline.change:.0f} on {SECOND_POLICY};"
            f" the queries of class critical ask for a latency of {LATENCY}",
            "measured": f"answers to rows that were sent in these {timeline.seconds:.0f} s and delivered at most"
            f" {_GRACE:.0f} s after them, when every query had run before",
            "expensive function": f"{duration(self._cost)} for each reading in each of {REPORTS} reports, measured at"
            " the start",
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()},"
            f" Spark {spark.version}",
        }

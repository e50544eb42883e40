"""Statistics of a running network: samples the counters of its operators and refreshes the policy when it is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headgate.runtime.dataflow import Stage, Wiring
from headgate.runtime.memory import Memory
from headgate.scheduling import Scheduler, Statistics

UPDATE_SHARE = 0.005
"""The share of the time that statistics updates may take; with many operators they become less frequent."""

ACCOUNT_INTERVAL = 0.001
"""Seconds between two integrations of the queue length, which also check whether the policy is due."""

UPDATE_INTERVAL = 1.0
"""Seconds between two statistics updates if the policy asks for none; metrics show them."""

SAMPLED_FROM, SAMPLED_ONE_IN = 14, 7
"""Operators that run at least SAMPLED_FROM times between two statistics updates are sampled: one pass in SAMPLED_ONE_IN
is timed."""

Figures = Sequence[float]
"""Cost, selectivity, bytes per row in and out, and arrival rate of an operator."""


class Counters(NamedTuple):
    """The counters of an operator at one moment; `arrived` counts processed and waiting rows."""

    rows_in: int
    rows_out: int
    seconds: float
    timed: int
    watermark_seconds: float
    arrived: int
    runs: int


_ZERO = Counters(0, 0, 0.0, 0, 0.0, 0, 0)


class Measurement:
    """Turns the counters of the stages into statistics. Every method is called under the network's lock.

    Before a decision, the loop calls `account` if the time that the previous call returned has passed.
    """

    def __init__(self, wiring: Wiring, scheduler: Scheduler, memory: Memory, clock: Callable[[], float]) -> None:
        self._wiring = wiring
        self._scheduler = scheduler
        self._memory = memory
        self._clock = clock
        self._last = [self._counters(stage, 0) for stage in wiring.stages]
        self._stream_width: dict[int, float] = {}
        self._accounted = self._updated = clock()

    def note_width(self, stream: str, width: float) -> None:
        """Notes the bytes per row of a stream, for the operators that read it."""
        topology = self._wiring.topology
        for edge in topology.stream_edges.get(stream, ()):
            self._stream_width[topology.edges[edge].consumer] = width

    def account(self, now: float, waiting: float) -> float:
        """Integrates queue length over time (used by AMoS) and refreshes the policy when its interval has elapsed.

        Returns when to call again.
        """
        elapsed = now - self._accounted
        self._accounted = now
        view, used = self._scheduler.view, self._memory.bytes
        view.queues.memory = used
        view.performance.queued_rows += elapsed * waiting
        view.performance.queued_bytes += elapsed * used
        due = now >= self._scheduler.due
        if due or now >= self._updated + UPDATE_INTERVAL:
            self._refresh(now, due)
        return now + ACCOUNT_INTERVAL

    def _refresh(self, now: float, due: bool) -> None:
        """Updates the statistics and lets the policy use them, rarely enough to stay within UPDATE_SHARE."""
        self.update(now)
        if due:
            self._scheduler.refresh(now)
        pause = (self._clock() - now) / UPDATE_SHARE
        self._scheduler.due = max(self._scheduler.due, now + pause)
        self._updated = now + max(pause - UPDATE_INTERVAL, 0.0)

    def update(self, now: float) -> None:
        """Updates the statistics from the counts of the operators since the last update."""
        statistics, topology = self._scheduler.view.statistics, self._wiring.topology
        widths = [stage.width for stage in self._wiring.stages]
        for stage in self._wiring.stages:
            last = self._last[stage.id]
            counted = self._counters(stage, last.arrived)
            if counted == last:
                continue
            self._last[stage.id] = counted
            stage.sampling = SAMPLED_ONE_IN if counted.runs - last.runs >= SAMPLED_FROM else 1
            rows, made = counted.rows_in - last.rows_in, counted.rows_out - last.rows_out
            # If no row was timed since the last update, the mean over all rows timed so far is used.
            since = last if counted.timed > last.timed else _ZERO
            per_row = (counted.seconds - since.seconds) / max(counted.timed - since.timed, 1)
            seconds = per_row * rows + counted.watermark_seconds - last.watermark_seconds
            producers = topology.producers(stage.id)
            width = widths[producers[0]] if producers else self._stream_width.get(stage.id, 0.0)
            statistics.observe(stage.id, rows, made, seconds, rows * width, made * stage.width)
            statistics.arrive(stage.id, counted.arrived - last.arrived)
        statistics.update(now)

    def time_every_pass(self) -> None:
        """Stops sampling until the next update: the units have changed."""
        for stage in self._wiring.stages:
            stage.sampling = 1

    def _counters(self, stage: Stage, arrived: int) -> Counters:
        """The present counters. `arrived` never falls: a train inside a unit is neither waiting nor counted yet."""
        queues = self._wiring.queues
        waiting = sum([queues[edge].rows for edge in self._wiring.topology.inputs[stage.id]])
        return Counters(
            stage.rows_in,
            stage.rows_out,
            stage.seconds,
            stage.timed,
            stage.watermark_seconds,
            max(arrived, stage.rows_in + waiting),
            stage.runs,
        )


def figures(wiring: Wiring, statistics: Statistics) -> dict[str, list[float]]:
    """The statistics of each operator, by its key."""
    s = statistics
    return {
        stage.key: [s.cost[i], s.selectivity[i], s.bytes_in[i], s.bytes_out[i], s.rate[i]]
        for i, stage in enumerate(wiring.stages)
    }


def statistics_from(wiring: Wiring, known: Mapping[str, Figures], now: float) -> Statistics:
    """Statistics that start from known figures of operators, by their keys."""
    statistics = Statistics(wiring.topology)
    # The clock's zero is in the distant past: rates count from now.
    statistics.update(now)
    for stage in wiring.stages:
        found = known.get(stage.key)
        if found is not None:
            cost, selectivity, bytes_in, bytes_out, rate = found
            statistics.expect(
                stage.id, cost=cost, selectivity=selectivity, bytes_in=bytes_in, bytes_out=bytes_out, rate=rate
            )
    return statistics

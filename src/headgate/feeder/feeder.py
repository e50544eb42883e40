"""Sends rows of many streams at the times of their arrival processes, from one thread (003 §4.4)."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, inf, isfinite
from typing import Protocol

import numpy as np
import pyarrow as pa

from headgate.feeder.feed import EVENT_TIME, ArrivingRows, ColumnGenerators, Feed, Schedule, generator

_TINY = 1e-9
"""Tolerance for rounding errors of times (s)."""


class FeedError(Exception):
    """Rows cannot be generated or sent; the message says why and what to do."""


class Target(Protocol):
    """Where rows go. Called from the feeder's thread only."""

    def send(self, stream: str, rows: pa.Table) -> None:
        """Sends rows; returns once they are readable, or will be without another call."""
        ...

    def close(self) -> None:
        """Returns once everything sent is readable."""
        ...


@dataclass(frozen=True)
class StreamProgress:
    """What a feeder has sent to one stream. `lag`: seconds by which the newest rows were late."""

    rows: int
    rate: float
    lag: float
    worst_lag: float


@dataclass(frozen=True)
class Progress:
    """What a feeder has sent so far, by stream, and in how many seconds."""

    seconds: float
    streams: dict[str, StreamProgress]

    @property
    def rows(self) -> int:
        return sum(stream.rows for stream in self.streams.values())

    @property
    def lag(self) -> float:
        """The largest lag of the streams now."""
        return max((stream.lag for stream in self.streams.values()), default=0.0)

    @property
    def worst_lag(self) -> float:
        """The largest lag of any stream at any time."""
        return max((stream.worst_lag for stream in self.streams.values()), default=0.0)


class Feeder:
    """Sends the rows of all feeds to a target, each when it is due.

    - `seed`: the same seed gives the same rows with the same arrival times
    - `every`: seconds between two batches of a stream; the batches of the streams are spread over this interval. A row
      is sent with the first batch after its arrival time, so up to `every` seconds later
    - `seconds`: how long the arrival processes run; by default until they end, or `stop`
    - `start`: event time (seconds since 1970) of the start; by default the time of `start()`
    - `stamp`: a column (DOUBLE) to add, with the time at which the batch is sent

    A late batch includes all rows that have become due in the meantime, so that the feeder catches up.
    """

    def __init__(
        self,
        target: Target,
        feeds: Sequence[Feed],
        *,
        seed: int = 0,
        every: float = 0.1,
        seconds: float = inf,
        start: float | None = None,
        stamp: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        names = [feed.stream for feed in feeds]
        if len(set(names)) < len(names):
            raise FeedError(f"two feeds have the same stream: {', '.join(names)}; give each stream once")
        if not every > 0:
            raise FeedError(f"every is {every}; give the seconds between two batches, above zero")
        if seconds < 0:
            raise FeedError(f"seconds is {seconds}; give zero or more")
        self._target = target
        self._seconds = seconds
        self._event_start = start
        self._stamp = stamp
        self._clock = clock
        self._feeds = {
            feed.stream: _FeedState(feed, seed, every, every * place / len(feeds)) for place, feed in enumerate(feeds)
        }
        self._due = [(min(state.first, seconds), stream) for stream, state in self._feeds.items()]
        heapq.heapify(self._due)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="headgate-feeder", daemon=True)
        self._began = 0.0
        self._took: float | None = None
        self.failure: Exception | None = None

    # Running ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread and the clock of the arrival processes."""
        self._begin()
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until all rows are sent; False if they are not after `seconds`. FeedError if sending failed."""
        self._thread.join(seconds)
        self._raise_failure()
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stops after the current batch; does nothing if it was never started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def run(self) -> Progress:
        """Sends all rows in the calling thread, and returns what was sent."""
        self._begin()
        self._work()
        self._raise_failure()
        return self.progress()

    def set_rate(self, stream: str, rate: float) -> None:
        """Changes the mean rate of a stream (rows/s) while it runs, from its next batch on; 0 pauses it.

        The clock of the arrival process runs faster or slower: a Poisson process stays Poisson, bursts keep their
        number of rows, and a recorded trace is replayed at another speed.
        """
        if stream not in self._feeds:
            raise FeedError(f"there is no stream {stream}; there are: {', '.join(self._feeds)}")
        if not (rate >= 0 and isfinite(rate)):
            raise FeedError(f"the rate of {stream} is {rate}; give rows per second, 0 or more")
        with self._lock:
            self._feeds[stream].set_rate(rate)

    def set_speed(self, factor: float) -> None:
        """Sets the rates of all streams to `factor` times the rates of their arrival processes."""
        for stream, state in self._feeds.items():
            self.set_rate(stream, state.feed.arrivals.rate * factor)

    def progress(self) -> Progress:
        """What was sent so far. May be called from any thread."""
        seconds = self._took if self._took is not None else self._clock() - self._began if self._began else 0.0
        with self._lock:
            return Progress(seconds, {stream: state.progress() for stream, state in self._feeds.items()})

    def advance(self, moment: float) -> float | None:
        """Sends every batch due `moment` seconds after the start; returns when the next one is due, None at the end."""
        while self._due and self._due[0][0] <= moment + _TINY and not self._stop.is_set():
            due, stream = heapq.heappop(self._due)
            state = self._feeds[stream]
            # A late batch includes everything that has become due in the meantime.
            boundary = min(state.boundary(moment, due), self._seconds)
            with self._lock:
                rows = state.take(boundary, self._event_start or 0.0)
            if rows is not None:
                self._send(stream, rows)
            with self._lock:
                state.sent(max(self._clock() - self._began - boundary, 0.0) if self._began else 0.0)
            if boundary < self._seconds and not state.ended:
                heapq.heappush(self._due, (min(state.after(boundary), self._seconds), stream))
        return self._due[0][0] if self._due else None

    def _begin(self) -> None:
        if self._event_start is None:
            self._event_start = time.time()
        self._began = self._clock()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise FeedError(str(self.failure)) from self.failure

    def _send(self, stream: str, rows: pa.Table) -> None:
        if self._stamp is not None:
            rows = rows.append_column(self._stamp, pa.array(np.full(rows.num_rows, time.time())))
        self._target.send(stream, rows)

    def _work(self) -> None:
        try:
            while (due := self.advance(self._clock() - self._began)) is not None:
                if self._stop.wait(max(self._began + due - self._clock(), 0.0)):
                    break
            self._target.close()
        except Exception as error:
            self.failure = error
        self._took = self._clock() - self._began


class _FeedState:
    """One stream of a feeder: its schedule, its clock, and what was sent."""

    def __init__(self, feed: Feed, seed: int, every: float, shift: float) -> None:
        self.feed = feed
        self.first = every + shift
        self._every = every
        self._schedule = Schedule(feed.arrivals, generator(seed, f"{feed.stream}/arrivals"))
        self._draws = ColumnGenerators(seed, feed.stream)
        # The clock of the arrival process is at `_process` s after `_changed` s, and runs at `_speed` since then.
        self._process = 0.0
        self._changed = 0.0
        self._speed = 1.0
        self._taken = 0.0
        self._rows = 0
        self._lag = self._worst = 0.0

    @property
    def ended(self) -> bool:
        return self._schedule.ended

    def boundary(self, moment: float, due: float) -> float:
        """The latest batch boundary that is not after `moment`, but at least `due`."""
        return max(self.first + self._every * floor((moment - self.first) / self._every + _TINY), due)

    def after(self, boundary: float) -> float:
        """The boundary after this one."""
        return self.first + self._every * (round((boundary - self.first) / self._every) + 1)

    def set_rate(self, rate: float) -> None:
        self._process += (self._taken - self._changed) * self._speed
        self._changed = self._taken
        self._speed = rate / self.feed.arrivals.rate

    def take(self, boundary: float, start: float) -> pa.Table | None:
        """The rows that arrive up to a boundary (s) and were not taken before."""
        moments = self._schedule.until(self._process + (boundary - self._changed) * self._speed)
        self._taken = boundary
        if not len(moments):
            return None
        elapsed = self._changed + (moments - self._process) / self._speed
        micros = np.round(elapsed * 1e6).astype(np.int64) + round(start * 1e6)
        arriving = ArrivingRows(self._rows, elapsed, pa.array(micros).cast(EVENT_TIME))
        self._rows += len(moments)
        return pa.Table.from_arrays(list(self.feed.maker.rows(arriving, self._draws)), schema=self.feed.maker.schema)

    def sent(self, lag: float) -> None:
        self._lag = lag
        self._worst = max(self._worst, lag)

    def progress(self) -> StreamProgress:
        return StreamProgress(self._rows, self.feed.arrivals.rate * self._speed, self._lag, self._worst)

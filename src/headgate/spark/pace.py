"""The pace of epochs: how long a lane pauses after an epoch before Spark looks for new rows again.

A trigger costs about as much with few rows as with many, so triggers that follow each other without a pause burn a core
for nothing. If some query has a latency spec, lanes pause as long as the tightest one allows. Otherwise they pause so
that triggers take at most a given number of cores.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_LOG = logging.getLogger("headgate.pace")

TRIGGER_CORES = 0.5
"""Cores that triggers may take if no query has a latency spec."""
LONGEST = 1.0
"""The longest pause (s) without a latency spec."""
SAVED = 1.0
"""Processor seconds that may be saved up: as long as some are left, there is no pause. So the first rows after a quiet
time are never kept waiting."""
WARM_UP = 10
"""First epochs of a run, which are not counted: most of their processor time is that of compilers."""
WINDOW = 32
RECENT = 15.0
"""Trigger times are observed over so many epochs, or over so many seconds if these have more. The second largest
counts: a single slow epoch does not. With ten epochs a second, 32 are too few to see how much they differ."""
AIM = 0.85
"""Share of the latency asked for that pauses usually aim at. With 0.95, 97 to 99.7% of the results were in time where
2 s were asked for: what the second slowest trigger took is exceeded now and then, and by tenths of a second."""
DECAY = 0.97
"""Weight of the epochs before the last one, for the cost of a trigger."""
MANY_ROWS = 3.0
"""An epoch that takes so many times as long as the shortest one has many rows."""
RIDGE = 0.05
"""Relative variance of the number of rows below which the costs of epochs say little about the cost of a row."""


@dataclass(frozen=True)
class LatencyTarget:
    """The tightest latency that a running query asks for, in seconds, and its name."""

    seconds: float
    query: str


class TriggerCost:
    """Estimates the processor time of a trigger without the part that is proportional to its rows.

    A weighted regression of costs on rows: more rows are no reason to pause, as they would only wait.
    """

    def __init__(self) -> None:
        self._weight = self._rows = self._cost = 0.0
        self._squares = self._products = 0.0

    def add(self, rows: int, cost: float) -> None:
        """Adds an epoch."""
        for name, value in (
            ("_weight", 1.0),
            ("_rows", float(rows)),
            ("_cost", cost),
            ("_squares", float(rows) ** 2),
            ("_products", rows * cost),
        ):
            setattr(self, name, DECAY * getattr(self, name) + value)

    @property
    def seconds(self) -> float:
        """Processor seconds of a trigger without rows; 0 if nothing is known."""
        if not self._weight:
            return 0.0
        rows, cost = self._rows / self._weight, self._cost / self._weight
        variance = self._squares / self._weight - rows**2
        covariance = self._products / self._weight - rows * cost
        slope = covariance / (variance + RIDGE * rows**2) if rows else 0.0
        return max(0.0, cost - max(0.0, slope) * rows)


class RecentTimes:
    """The durations of the newest events: WINDOW of them, and all others of the last RECENT seconds."""

    def __init__(self) -> None:
        self._found: deque[tuple[float, float]] = deque()

    def add(self, now: float, seconds: float) -> None:
        """Adds an event that has just ended."""
        self._found.append((now, seconds))
        while len(self._found) > WINDOW and self._found[0][0] < now - RECENT:
            self._found.popleft()

    def __len__(self) -> int:
        return len(self._found)

    @property
    def last(self) -> float:
        """The newest duration."""
        return self._found[-1][1]

    @property
    def shortest(self) -> float:
        """The shortest duration."""
        return min(seconds for _, seconds in self._found)

    @property
    def high(self) -> float:
        """The second longest duration; of one or two the longest, of none 0.

        >>> times = RecentTimes()
        >>> for second, taken in enumerate([1.0, 9.0, 2.0]):
        ...     times.add(second, taken)
        >>> times.high
        2.0
        """
        longest = sorted(seconds for _, seconds in self._found)[-2:]
        return longest[0] if len(self._found) > 2 else max(longest, default=0.0)


@dataclass
class _LaneTimes:
    """Moments of one lane: the start and the end of its last epoch, and when Spark was let go on after it.

    `share` is its weight compared with that of the highest class, `target` the tightest latency that it must keep.
    """

    share: float = 1.0
    target: LatencyTarget | None = None
    began: float | None = None
    ended: float = 0.0
    released: float | None = None
    gaps: RecentTimes = field(default_factory=RecentTimes)
    epochs: RecentTimes = field(default_factory=RecentTimes)

    def reserve(self, publishing: float) -> float:
        """The longest time from a row's arrival to its result without a pause: it arrives just after Spark has looked,
        and waits for the end of that epoch, the next look, the next epoch and its publication."""
        return 2 * (self.epochs.high + self.gaps.high) + publishing

    def way(self) -> float:
        """The pause by which a lane of a lower class gives way to higher ones: in proportion to their weights. None
        after an epoch that was long because it had many rows: more of them may be waiting."""
        if not self.epochs or self.epochs.last > MANY_ROWS * self.epochs.shortest:
            return 0.0
        return (1 / self.share - 1) * self.epochs.last


class Pace:
    """Decides on pauses. All methods may be called from any thread.

    - `cores`: cores that triggers may take without a latency spec; None: as many as they need
    - `use`: processor seconds since its last call; None if unknown: then an epoch counts as one busy core
    """

    def __init__(
        self,
        cores: float | None = TRIGGER_CORES,
        use: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lock = threading.Lock()
        self._cores = cores
        self._use = use
        self._clock = clock
        self.aim = AIM
        """Share of the target that pauses aim at; a step of the run-time optimizer."""
        self._lanes: dict[str, _LaneTimes] = {}
        self._publishing = RecentTimes()
        self._committed: dict[int, float] = {}
        self._cost = TriggerCost()
        self._credit = SAVED
        self._counted = 0
        self._at = clock()
        self._pause = 0.0
        self._used: deque[tuple[float, float]] = deque(maxlen=WINDOW)

    @property
    def target(self) -> LatencyTarget | None:
        """The tightest latency that some lane must keep."""
        targets = [times.target for times in self._lanes.values() if times.target is not None]
        return min(targets, key=lambda target: target.seconds, default=None)

    def arrange(self, lane: str, share: float, target: LatencyTarget | None) -> bool:
        """Sets the weight of a lane compared with that of the highest class, and the latency that it must keep; whether
        that is tighter than before."""
        with self._lock:
            times = self._lanes.setdefault(lane, _LaneTimes())
            before = times.target
            times.share, times.target = share, target
            if before != target:
                _LOG.info("lane %s: %s", lane, self._reason())
            return target is not None and (before is None or target.seconds < before.seconds)

    def begin(self, lane: str) -> float:
        """Spark delivers a batch; returns for how long (s) its rows may have waited since the last look."""
        now = self._clock()
        with self._lock:
            times = self._lanes.setdefault(lane, _LaneTimes())
            waited = 0.0
            if times.began is not None and times.released is not None:
                gap = now - times.released
                # If Spark has looked in vain first, the rows arrived just now.
                idle = 2 * times.gaps.shortest + 0.05 if times.gaps else gap
                if gap <= idle:
                    waited = now - times.began
                times.gaps.add(now, min(gap, idle))
            times.began = now
            return waited

    def end(self, lane: str) -> float:
        """The epoch of a batch is committed; returns the pause (s) before Spark looks for new rows."""
        now = self._clock()
        with self._lock:
            times = self._lanes.setdefault(lane, _LaneTimes())
            times.ended = now
            if times.began is not None:
                times.epochs.add(now, now - times.began)
            self._pause = self._pause_of(times, now)
            return self._pause

    def release(self, lane: str) -> None:
        """The pause is over."""
        with self._lock:
            self._lanes.setdefault(lane, _LaneTimes()).released = self._clock()

    def forget(self, lane: str) -> None:
        """The lane is started again: its last moments say nothing about the next look."""
        with self._lock:
            times = self._lanes.pop(lane, None)
            if times is not None:
                self._lanes[lane] = _LaneTimes(times.share, times.target)

    def committed(self, epoch: int, rows: int, seconds: float, operators: float) -> None:
        """An epoch with so many new rows took `seconds`, of which hosts spent `operators` in operators."""
        used = self._use()
        now = self._clock()
        with self._lock:
            self._committed[epoch] = now
            self._counted += 1
            cost = max(0.0, (seconds if used is None else used) - operators)
            earned = now - self._at
            self._at = now
            if self._cores is None:
                return
            self._credit = min(SAVED, self._credit + self._cores * earned)
            if self._counted > WARM_UP:
                self._used.append((now, cost))
                self._cost.add(rows, cost)
                self._credit = max(-self._cores * LONGEST, self._credit - min(cost, self._cost.seconds))

    def published(self, epoch: int) -> None:
        """The results of an epoch can be read."""
        now = self._clock()
        with self._lock:
            began = self._committed.pop(epoch, None)
            if began is not None:
                self._publishing.add(now, now - began)

    def backlog_pause(self) -> float:
        """Seconds until an epoch without new rows is within the cores."""
        with self._lock:
            return self._pause_for_cores(self._clock()) if self.target is None else 0.0

    def report(self) -> dict[str, Any]:
        """For `Engine.metrics`: the last pause (s), its reason, the cores that triggers take, and the cost of one."""
        with self._lock:
            target = self.target
            since = self._used[0][0] if self._used else 0.0
            elapsed = self._clock() - since
            used = sum(cost for _, cost in list(self._used)[1:])
            return {
                "pause": self._pause,
                "reason": self._reason(),
                "trigger_cores": used / elapsed if len(self._used) > 1 and elapsed > 0 else 0.0,
                "trigger_processor_seconds": self._cost.seconds,
                "target": None if target is None else target.seconds,
                "reserve": max((t.reserve(self._publishing.high) for t in self._lanes.values()), default=0.0),
            }

    def _reason(self) -> str:
        if (target := self.target) is not None:
            return f"latency {target.seconds:g} s of query {target.query}"
        if self._cores is None:
            return "no latency spec, no limit"
        return f"no latency spec: at most {self._cores:g} cores on triggers"

    def _pause_of(self, times: _LaneTimes, now: float) -> float:
        if times.target is None:
            return max(self._pause_for_cores(now), min(LONGEST, times.way()))
        if len(times.epochs) < 2:
            return 0.0
        return max(0.0, self.aim * times.target.seconds - times.reserve(self._publishing.high))

    def _pause_for_cores(self, now: float) -> float:
        if self._cores is None:
            return 0.0
        credit = self._credit + self._cores * (now - self._at)
        return min(LONGEST, max(0.0, -credit / self._cores))

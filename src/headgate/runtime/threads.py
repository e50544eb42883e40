"""The threads of a network: its lock, the workers that run grants (000 §4.2), and the report of stuck grants.

A method that waits, or does slow work without the lock, takes the lock itself: nothing in this package releases a lock
that its caller took.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from threading import Condition, Event, Lock, Thread
from typing import TYPE_CHECKING

from headgate.runtime.dataflow import Flow, never

if TYPE_CHECKING:
    from headgate.runtime.loop import Loop

_LOG = logging.getLogger("headgate.runtime")

LINGER = 5.0
"""Seconds without work after which a thread ends; the next run starts a new one."""

IDLE_CHECKS = 20
"""Checks without a running grant after which the monitor's thread ends."""


class ThreadControl:
    """The lock of a network, its running grants, and the conditions that threads wait for.

    `lock` guards queues, view, scheduler, memory and this object; operators run without it.

    - `running`: the flows (by id) that have a grant; each knows its unit and since when it runs
    - `paused`: number of callers that need the network stopped (snapshot, re-planning); while above 0, no grant begins
    - `changed`: a grant ended while the network was paused, or a pause ended
    - `work`: there is something to do; `asleep` threads wait for it
    - `done`: a run may be complete
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.changed = Condition(self.lock)
        self.work = Condition(self.lock)
        self.done = Condition(self.lock)
        self.running: dict[int, Flow] = {}
        self.paused = 0
        self.asleep = 0

    @contextmanager
    def alone(self, needed: Callable[[], bool] | None = None) -> Iterator[None]:
        """Takes the lock, waits until no grant runs, and keeps grants from beginning until the end of the block.

        Where `needed()`, called under the lock, is False, it only takes the lock. Never called by a thread that runs a
        grant.
        """
        with self.lock:
            if needed is not None and not needed():
                yield
                return
            self.paused += 1
            try:
                while self.running:
                    self.changed.wait()
                yield
            finally:
                self.paused -= 1
                self.changed.notify_all()
                if not self.paused:
                    self.work.notify_all()

    def leave(self, flow: Flow) -> None:
        """Under the lock: the flow has no grant any more."""
        del self.running[id(flow)]
        if self.paused:
            self.changed.notify_all()


class Workers:
    """Threads that run grants between the beginning and the end of `run`.

    `loop` returns the present loop. A thread calls `after` without the lock at the end of `Loop.drive`: when an
    operator failed, and with `each` after every grant.

    The scheduler decides which unit runs next, and so which partition gets a thread: a worker that has finished a grant
    takes the next one, of any partition. So threads change partitions at the ends of grants, and there can be more
    partitions than threads.
    """

    def __init__(
        self,
        control: ThreadControl,
        loop: Callable[[], Loop],
        after: Callable[[Flow], None],
        each: bool,
        clock: Callable[[], float],
    ) -> None:
        self._control = control
        self._loop = loop
        self._after = after
        self._each = each
        self._clock = clock
        self._until = inf
        self._over: Callable[[], bool] = never
        self._working = False
        self._wanted = 0
        self._flows: list[Flow] = []
        self._alive = 0
        # Threads between the beginning of a grant and the end of `after`.
        self._busy = 0
        self._ended = 0.0
        self._failure: BaseException | None = None

    @property
    def working(self) -> bool:
        """Whether a run is in progress."""
        return self._working

    @property
    def seconds(self) -> float:
        """The time spent inside operators by all threads so far."""
        return self._ended + sum(flow.seconds for flow in list(self._flows))

    def resize(self, count: int) -> None:
        """Under the lock: sets the number of threads. Surplus threads end with their grant."""
        self._wanted = count
        while self._alive < count:
            flow = Flow(self._clock)
            flow.over = lambda: self._over()
            self._flows.append(flow)
            self._alive += 1
            Thread(target=self._work, args=(flow,), name="headgate", daemon=True).start()
        self._control.work.notify_all()

    def run(self, until: float, over: Callable[[], bool] | None = None) -> None:
        """Without the lock: lets the threads work until no unit is ready and no grant runs, until `until`, or until
        `over()`, which is called under the lock after every grant.
        """
        control = self._control
        with control.lock:
            self._until, self._working = until, True
            self._over = over or never
            control.work.notify_all()
            while self._working and (now := self._clock()) < until:
                control.done.wait(None if until == inf else until - now)
            self._working = False
            while control.running or self._busy:
                control.done.wait()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _may_continue(self) -> bool:
        """Under the lock: whether a thread that has finished a grant takes another at once."""
        if self._over():
            self._working = False
        return self._working and self._alive <= self._wanted and not self._each

    def _end(self, flow: Flow) -> None:
        self._alive -= 1
        self._flows.remove(flow)
        self._ended += flow.seconds

    def _work(self, flow: Flow) -> None:
        control = self._control
        while True:
            with control.lock:
                if self._alive > self._wanted:
                    self._end(flow)
                    # Another thread must check whether the run is complete.
                    control.work.notify()
                    return
                loop = self._loop()
                unit = loop.begin(flow, self._until) if self._working and not control.paused else None
                if unit is None:
                    if not control.running and not self._busy:
                        if not control.paused:
                            self._working = False
                        control.done.notify_all()
                    control.asleep += 1
                    woken = control.work.wait(LINGER)
                    control.asleep -= 1
                    if not woken and not self._working:
                        self._end(flow)
                        return
                    continue
                self._busy += 1
            try:
                loop.drive(unit, flow, self._until, self._may_continue)
                self._after(flow)
            except BaseException as error:  # not from an operator: the network itself failed, and `run` raises it
                with control.lock:
                    self._failure, self._working = error, False
                    control.running.pop(id(flow), None)
            with control.lock:
                self._busy -= 1
                if not self._busy:
                    control.done.notify_all()


class StuckGrants:
    """Reports grants that run longer than `longest` seconds: a thread checks several times in this period.

    The thread ends with `stop`, and when no grant has run for a while. `name` describes a unit; `replace` is called
    under the lock with the number of stuck grants.
    """

    def __init__(
        self,
        control: ThreadControl,
        longest: float,
        clock: Callable[[], float],
        name: Callable[[int], str],
        replace: Callable[[int], None],
    ) -> None:
        self._control = control
        self._longest = longest
        self._clock = clock
        self._name = name
        self._replace = replace
        self._alive = False
        # Ends the wait of the present thread.
        self._ended = Event()
        self._reported: set[tuple[int, float]] = set()

    def start(self) -> None:
        """Under the lock: grants are about to run."""
        if not self._alive:
            self._alive, self._ended = True, Event()
            # The thread must not keep a network alive that is not used any more.
            given = weakref.ref(self), self._longest / 4, self._ended
            Thread(target=_check_repeatedly, args=given, name="headgate-stuck", daemon=True).start()

    def check(self) -> bool:
        """Without the lock: reports each stuck grant once; returns whether any grant runs."""
        with self._control.lock:
            now = self._clock()
            stuck = [(number, flow.since, flow.unit) for number, flow in self._control.running.items()]
            stuck = [each for each in stuck if now - each[1] > self._longest]
            self._reported &= {(flow, since) for flow, since, _ in stuck}
            for flow, since, unit in stuck:
                if (flow, since) not in self._reported:
                    self._reported.add((flow, since))
                    _LOG.warning("%s has been running for %.1f s and is not done", self._name(unit), now - since)
            self._replace(len(stuck))
            return bool(self._control.running)

    def stop(self) -> None:
        """Without the lock: the thread ends; the next `start` begins another."""
        with self._control.lock:
            self._alive = False
            self._ended.set()


def _check_repeatedly(reference: weakref.ref[StuckGrants], period: float, ended: Event) -> None:
    idle = 0
    while idle < IDLE_CHECKS and not ended.wait(period):
        monitor = reference()
        if monitor is None:
            return
        idle = 0 if monitor.check() else idle + 1
        if idle >= IDLE_CHECKS and not ended.is_set():
            monitor.stop()
        del monitor

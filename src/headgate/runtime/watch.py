"""Notices grants that run too long: a thread that looks at what runs, and says so once."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from threading import Event, Thread

from headgate.runtime.gate import Gate

_LOG = logging.getLogger("headgate.runtime")
_IDLE = 20


class Watch:
    """Looks several times in the time that a grant may take; ends itself when nothing has run for a while.

    `name` says which operators and queries a unit is, `stuck` is told how many grants are late now.
    """

    def __init__(
        self,
        gate: Gate,
        longest: float,
        clock: Callable[[], float],
        name: Callable[[int], str],
        stuck: Callable[[int], None],
    ) -> None:
        self._gate = gate
        self._longest = longest
        self._clock = clock
        self._name = name
        self._stuck = stuck
        self._alive = False
        self._told: set[tuple[int, float]] = set()

    def wake(self) -> None:
        """Under the lock: something will run."""
        if not self._alive:
            self._alive = True
            # The thread must not keep alive a network that nobody uses any more.
            Thread(
                target=_look, args=(weakref.ref(self), self._longest / 4), name="headgate-watch", daemon=True
            ).start()

    def look(self) -> bool:
        """Whether anything runs; says what runs too long."""
        with self._gate.lock:
            now = self._clock()
            late = [(number, flow.since, flow.unit) for number, flow in self._gate.running.items()]
            late = [each for each in late if now - each[1] > self._longest]
            self._told &= {(flow, since) for flow, since, _ in late}
            for flow, since, unit in late:
                if (flow, since) not in self._told:
                    self._told.add((flow, since))
                    _LOG.warning("%s has been running for %.1f s and is not done", self._name(unit), now - since)
            self._stuck(len(late))
            return bool(self._gate.running)

    def rest(self) -> None:
        """The thread ends; the next `wake` starts another."""
        with self._gate.lock:
            self._alive = False


def _look(reference: weakref.ref[Watch], period: float) -> None:
    sleep = Event()
    idle = 0
    while idle < _IDLE:
        sleep.wait(period)
        watch = reference()
        if watch is None:
            return
        idle = 0 if watch.look() else idle + 1
        if idle >= _IDLE:
            watch.rest()
        del watch

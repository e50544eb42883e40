"""What each user's function takes of its process: measured in a process that follows one that had become unfit, so that
the function to blame is known when it happens again."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass

from headgate.spark.fitness import Fitness
from headgate.spark.processes import is_doomed, threads_of

FATAL = 1 << 20
"""The toll of a call after which the host's descriptors are closed, a limit is lower, or the supervisor is killed: more
than the descriptors and threads that a process can have."""

_LIMITS = sorted(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


@dataclass(frozen=True)
class BegunCall:
    """A call of a function that runs: its number, whether it began alone, and what the process had then."""

    number: int
    alone: bool
    taken: int
    limits: tuple[float, ...]


class TollWatch:
    """Measures calls of users' functions (the `CallWatch` of a flight record): what a call keeps counts for its stage,
    if no other call ran at the same time.

    - `note`: gets a stage by its mark, and its toll: the descriptors and threads that a call keeps, or `FATAL`
    - `own`: the number of descriptors and threads that the host itself has taken for its connections
    - `thorough`: whether the process ends after the very call that makes it unfit
    """

    def __init__(
        self,
        note: Callable[[int, int], None],
        fitness: Fitness,
        own: Callable[[], int],
        thorough: Callable[[], bool],
    ) -> None:
        self._note = note
        self._fitness = fitness
        self._own = own
        self._thorough = thorough
        self._supervisor = os.getppid()
        self._lock = threading.Lock()
        self._begun = self._running = 0

    def before(self) -> BegunCall:
        with self._lock:
            self._begun += 1
            self._running += 1
            number, alone = self._begun, self._running == 1
        return BegunCall(number, alone, self._taken(), _limits())

    def after(self, mark: int, call: BegunCall) -> None:
        thorough = self._thorough()
        taken, fatal = self._taken(), self._is_fatal(call, thorough)
        with self._lock:
            self._running -= 1
            if call.alone and self._begun == call.number and (taken != call.taken or fatal):
                self._note(mark, FATAL if fatal else taken - call.taken)
        if thorough:
            self._fitness.check()

    def _is_fatal(self, call: BegunCall, thorough: bool) -> bool:
        if self._fitness.closed or any(now < then for now, then in zip(_limits(), call.limits, strict=True)):
            return True
        return thorough and is_doomed(self._supervisor)

    def _taken(self) -> int:
        return _descriptors() + (threads_of(os.getpid()) or threading.active_count()) - self._own()


def _limits() -> tuple[float, ...]:
    found = (resource.getrlimit(each)[0] for each in _LIMITS)
    return tuple(float("inf") if limit == resource.RLIM_INFINITY else limit for limit in found)


def _descriptors() -> int:
    """The number of open descriptors."""
    try:
        # The size of the folder is their number since Linux 6.2, and 0 before.
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError:
        pass
    try:
        lowest = os.dup(2)
    except OSError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.close(lowest)
    return lowest

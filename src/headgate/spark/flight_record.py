"""The flight record of a host: memory that supervisor and network's process share, and that outlives the latter.

The network's threads write it (`runtime/flight.py` describes a slot); the supervisor reads it while they run and after
they have died.
"""

from __future__ import annotations

import mmap
import threading
from dataclasses import dataclass

from headgate.runtime.flight import LIMIT, SINCE, STAGE, UNIT, FlightSlot

SLOTS = 2048
"""Threads that can be recorded at once; the modes use at most 1,024, the host a few more."""

_WORDS = 8
"""Words of a slot, padded to a cache line to avoid false sharing between threads."""


@dataclass(frozen=True)
class RunningStage:
    """What one thread runs: unit and stage by their marks (0: none), and a user's function's start and limit (s)."""

    unit: int
    stage: int
    since: float
    limit: float


class SharedFlightRecord:
    """The slots of a process and of all that it forks."""

    def __init__(self) -> None:
        # The first slot holds the number of slots that were ever used, and the largest state: its stage, its bytes.
        self._words = memoryview(mmap.mmap(-1, (SLOTS + 1) * _WORDS * 8)).cast("Q")
        self._free: list[int] = []
        self._lock = threading.Lock()
        self._mine = threading.local()

    def slot(self) -> FlightSlot:
        try:
            words: FlightSlot = self._mine.words
        except AttributeError:
            words = self._mine.words = self._new_slot()
        return words

    def _new_slot(self) -> FlightSlot:
        with self._lock:
            if self._free:
                number = self._free.pop()
            elif self._words[0] < SLOTS:
                number = self._words[0] = self._words[0] + 1
            else:
                return [0] * _WORDS
        # The slot is released when the thread ends, with its thread-local variables.
        self._mine.lease = _Lease(self._free, number)
        return self._words[number * _WORDS : (number + 1) * _WORDS]

    def note_largest_state(self, mark: int, size: int) -> None:
        self._words[1], self._words[2] = mark, size

    @property
    def largest_state(self) -> tuple[int, int]:
        """The stage with the largest state (0: none is known), and the bytes of the state."""
        return self._words[1], self._words[2]

    def running(self) -> list[RunningStage]:
        """What runs now, or ran when the process ended."""
        found = []
        for number in range(1, self._words[0] + 1):
            slot = self._words[number * _WORDS : (number + 1) * _WORDS]
            if slot[STAGE] or slot[UNIT]:
                found.append(RunningStage(slot[UNIT], slot[STAGE], slot[SINCE] / 1e9, slot[LIMIT] / 1e9))
        return found

    def clear(self) -> None:
        """Empties it for the next process."""
        for number in range((self._words[0] + 1) * _WORDS):
            self._words[number] = 0


class _Lease:
    def __init__(self, free: list[int], number: int) -> None:
        self._free = free
        self._number = number

    def __del__(self) -> None:
        self._free.append(self._number)

"""The flight record of a host: memory that supervisor and network's process share, and that outlives both.

The network's threads write it (`runtime/flight.py` describes a slot); the supervisor reads it while they run and after
they have died. If the supervisor is killed, the next one finds in it what ran then, and what its predecessor knew.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.runtime.flight import LIMIT, SINCE, STAGE, UNIT, CallWatch, FlightSlot

SLOTS = 2048
"""Threads that can be recorded at once; the modes use at most 1,024, the host a few more."""

_WORDS = 8
"""Words of a slot, padded to a cache line to avoid false sharing between threads."""

TOLLS = 512
"""Stages whose tolls can be recorded."""

_NOTES = 1 << 16
"""Bytes of the notes, with their length."""

_FIRST_TOLL = (SLOTS + 1) * _WORDS
_FIRST_NOTE = (_FIRST_TOLL + 2 * TOLLS) * 8
_SIZE = _FIRST_NOTE + _NOTES

_LAYOUT = 0x6865616467617401
"""Marks a file of this layout."""


@dataclass(frozen=True)
class RunningStage:
    """What one thread runs: unit and stage by their marks (0: none), and a user's function's start and limit (s)."""

    unit: int
    stage: int
    since: float
    limit: float


class SharedFlightRecord:
    """The slots of a process and of all that it forks. `path`: the file that keeps them for the next supervisor.

    `left` tells whether another supervisor has left this file behind. `raised` and `watch` are those of the process of
    the network (see `FlightRecord`).
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        # The first slot holds the number of slots that were ever used, the largest state (its stage, its bytes), and
        # the layout.
        self._memory = _mapped(path)
        self._words = memoryview(self._memory)[:_FIRST_NOTE].cast("Q")
        self._tolls = memoryview(self._memory)[_FIRST_TOLL * 8 : _FIRST_NOTE].cast("q")
        self._notes = memoryview(self._memory)[_FIRST_NOTE:]
        self._free: list[int] = []
        self._lock = threading.Lock()
        self._mine = threading.local()
        self.left = self._words[3] == _LAYOUT
        if self._words[3] not in (0, _LAYOUT):
            # Of another version.
            self._words[0] = SLOTS
            self.clear()
            self.notes = b""
        self._words[3] = _LAYOUT
        self.watch: CallWatch | None = None
        self.raised: Callable[[], None] = _go_on

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

    def add_toll(self, mark: int, toll: int) -> None:
        """Adds to what the calls of a stage have taken (`tolls.py`)."""
        with self._lock:
            for place in range(TOLLS):
                known = self._words[_FIRST_TOLL + 2 * place]
                if known in (0, mark):
                    self._words[_FIRST_TOLL + 2 * place] = mark
                    self._tolls[2 * place + 1] += toll
                    return

    @property
    def tolls(self) -> dict[int, int]:
        """What the calls of each stage have taken."""
        found = {}
        for place in range(TOLLS):
            mark = self._words[_FIRST_TOLL + 2 * place]
            if not mark:
                break
            found[mark] = self._tolls[2 * place + 1]
        return found

    @property
    def notes(self) -> bytes:
        """What the supervisor keeps for the next one: survives `clear`."""
        length = int.from_bytes(self._notes[:4], "big")
        return bytes(self._notes[4 : 4 + length])

    @notes.setter
    def notes(self, data: bytes) -> None:
        if len(data) > _NOTES - 4:
            data = b""
        self._notes[:4] = bytes(4)
        self._notes[4 : 4 + len(data)] = data
        self._notes[:4] = len(data).to_bytes(4, "big")

    def running(self) -> list[RunningStage]:
        """What runs now, or ran when the process ended."""
        found = []
        for number in range(1, min(self._words[0], SLOTS) + 1):
            slot = self._words[number * _WORDS : (number + 1) * _WORDS]
            if slot[STAGE] or slot[UNIT]:
                found.append(RunningStage(slot[UNIT], slot[STAGE], slot[SINCE] / 1e9, slot[LIMIT] / 1e9))
        return found

    def clear(self) -> None:
        """Empties it for the next process."""
        used = min(self._words[0], SLOTS)
        for number in range((used + 1) * _WORDS):
            self._words[number] = 0
        self._words[3] = _LAYOUT
        for number in range(_FIRST_TOLL, _FIRST_TOLL + 2 * TOLLS):
            self._words[number] = 0

    def remove(self) -> None:
        """No other supervisor needs it."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()


class _Lease:
    def __init__(self, free: list[int], number: int) -> None:
        self._free = free
        self._number = number

    def __del__(self) -> None:
        self._free.append(self._number)


def _go_on() -> None:
    pass


def _mapped(path: Path | None) -> mmap.mmap:
    """The memory of a file that only this user can read; memory without a file if there cannot be one."""
    if path is not None:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(descriptor).st_uid == os.getuid():
                    # Writing to a page for which there is no space would end the process.
                    _reserve(descriptor)
                    return mmap.mmap(descriptor, _SIZE)
            finally:
                os.close(descriptor)
    return mmap.mmap(-1, _SIZE)


def _reserve(descriptor: int) -> None:
    try:
        os.posix_fallocate(descriptor, 0, _SIZE)
    except AttributeError:
        os.ftruncate(descriptor, _SIZE)

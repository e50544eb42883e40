"""The flight record: what each thread of a network is running, so that the death of its process can be explained.

The network writes it; the supervisor of the process provides a record in memory that outlives the process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

UNIT, STAGE, SINCE, LIMIT = range(4)
"""The words of a slot: the stage at which the running train entered its unit, or whose state is saved or restored; the
stage whose user function runs, since when (ns, monotonic), and the time that it may take (ns). A stage is named by
`mark_of`; 0 means none."""

P = ParamSpec("P")
R = TypeVar("R")


class FlightSlot(Protocol):
    """The words of one thread, each an unsigned number of 64 bits."""

    def __setitem__(self, word: int, value: int, /) -> None: ...

    def __getitem__(self, word: int, /) -> Any: ...


class CallWatch(Protocol):
    """Measures the calls of users' functions."""

    def before(self) -> Any:
        """A call begins; what is returned belongs to it."""
        ...

    def after(self, mark: int, call: Any, /) -> None:
        """The call of a stage has ended, or has raised."""
        ...


class FlightRecord(Protocol):
    """The slots of all threads.

    `watch` is there in a process that looks for a harmful function.
    """

    watch: CallWatch | None

    def slot(self) -> FlightSlot:
        """The slot of the calling thread, which alone writes it."""
        ...

    def note_largest_state(self, mark: int, size: int) -> None:
        """Which stage holds the largest state, in bytes."""
        ...

    def raised(self) -> None:
        """An operator has raised. Does not return if the process itself cannot go on: the fault may be another's."""
        ...


class Unrecorded:
    """The record of a network without a supervisor: nothing reads it."""

    watch: CallWatch | None = None

    def __init__(self) -> None:
        self._slot = [0] * 4

    def slot(self) -> FlightSlot:
        return self._slot

    def note_largest_state(self, mark: int, size: int) -> None: ...

    def raised(self) -> None: ...


def mark_of(key: str) -> int:
    """The key of a stage (`dataflow.key_of`) as a number.

    >>> mark_of("00000000000000ff")
    255
    """
    return int(key, 16)


def recorded(record: FlightRecord, key: str, limit: float, function: Callable[P, R]) -> Callable[P, R]:
    """Wraps a function of a stage: while it runs, the record names the stage, the start and the time limit."""
    mark, longest = mark_of(key), int(limit * 1e9)

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        slot, process, watch = record.slot(), os.getpid(), record.watch
        failed = True
        # The stage is written last: a slot that names a stage already has its limit.
        slot[LIMIT], slot[SINCE], slot[STAGE] = longest, time.monotonic_ns(), mark
        call = None if watch is None else watch.before()
        try:
            found = function(*args, **kwargs)
            failed = False
            return found
        finally:
            if os.getpid() != process:
                # The function has forked, and this is the copy: it has no part in the network, whose connections and
                # files it would share.
                os._exit(0)
            if watch is not None:
                watch.after(mark, call)
            if failed:
                record.raised()
            slot[STAGE] = 0

    return run

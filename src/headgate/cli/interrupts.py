"""Turns Ctrl-C and TERM into an orderly end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer


class StopSignals:
    """The first Ctrl-C (or TERM) requests an orderly stop and prints what happens first; a second ends the process."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._doing = ""

    def install(self, doing: str) -> None:
        """Handles the signals from now on. Call it again after Spark has started, which installs its own handler."""
        self._doing = doing
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._request)

    def _request(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.requested.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.requested.set()
        typer.echo(f"headgate: {self._doing}; press Ctrl-C again to exit at once", err=True)


@contextmanager
def interrupts(doing: str) -> Iterator[StopSignals]:
    """Handles the signals inside the block, and then restores the previous handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stop = StopSignals()
    stop.install(doing)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def unwound() -> Iterator[None]:
    """Inside the block TERM raises SystemExit, as Ctrl-C raises KeyboardInterrupt: what was started there (a broker, a
    feeder, Spark) is stopped on the way out. A second TERM ends the process."""

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        signal.signal(number, signal.SIG_DFL)
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

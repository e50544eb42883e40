"""The processes that a command has started, directly or not: they have its environment, with a mark of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


class MarkedProcess:
    """A Python process in a session of its own. Start it by `marked`."""

    def __init__(self, arguments: Sequence[str], **environment: str) -> None:
        self._mark = uuid.uuid4().hex
        self.process: subprocess.Popen[Any] = subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **environment, "HEADGATE_TEST_MARK": self._mark},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_take_interrupts,
        )

    def all(self) -> dict[int, str]:
        """The commands of all processes with its mark that run, by their ids."""
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            # A process may end while it is looked at; a zombie has no environment.
            with suppress(OSError):
                if entry.name.isdigit() and self._mark.encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def runs(self, part: str) -> bool:
        """Whether one of them has this in its command."""
        return any(part in command for command in self.all().values())


def _take_interrupts() -> None:
    """Processes in the background of a shell ignore Ctrl-C, and so would what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def marked(*arguments: str, **environment: str) -> Iterator[MarkedProcess]:
    """Runs Python with arguments; `environment` adds to that of this process. What is left at the end is killed."""
    started = MarkedProcess(arguments, **environment)
    try:
        yield started
    finally:
        for pid in started.all():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        started.process.wait()

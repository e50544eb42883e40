"""Python functions that are fine until a value of 1,000 or more comes, and then do harm."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def _bad(values: pa.Array) -> bool:
    return (pc.max(values).as_py() or 0) >= 1000


def good(values: pa.Array) -> pa.Array:
    return values


def hang(values: pa.Array) -> pa.Array:
    while _bad(values):
        pass
    return values


def hang_in_c(values: pa.Array) -> pa.Array:
    """Holds Python's lock for ever."""
    if _bad(values):
        re.match(r"(a*)*b", "a" * 60)
    return values


def leave(values: pa.Array) -> pa.Array:
    if _bad(values):
        os._exit(3)
    return values


def leave_politely(values: pa.Array) -> pa.Array:
    if _bad(values):
        sys.exit("enough")
    return values


def kill(values: pa.Array) -> pa.Array:
    if _bad(values):
        os.kill(os.getpid(), signal.SIGKILL)
    return values


def crash(values: pa.Array) -> pa.Array:
    if _bad(values):
        ctypes.string_at(0)
    return values


def swallow(values: pa.Array) -> pa.Array:
    """Takes 6 GB of memory."""
    if _bad(values):
        taken = [np.ones(50_000_000) for _ in range(15)]
        assert len(taken) == 15
        while True:
            pass
    return values


def nibble(values: pa.Array) -> pa.Array:
    """Takes 600 MB of memory."""
    if _bad(values):
        taken = np.ones(75_000_000)
        while taken.any():
            pass
    return values


HARMS: dict[Callable[[pa.Array], pa.Array], str] = {
    hang: "hang ran longer than its limit of 2 s",
    hang_in_c: "hang_in_c ran longer than its limit of 2 s",
    leave: "leave ended the process (exit code 3)",
    leave_politely: "SystemExit: enough",
    kill: "kill ran each of the 3 times that the process was killed (signal KILL)",
    crash: "crash crashed the process (signal SEGV)",
    swallow: "swallow used more memory than the host's limit of",
}
"""What each of them says of itself in the failure of its query."""


def meet(values: pa.Array) -> pa.Array:
    """Waits a while for `meet_and_leave`; an epoch that is about to be cut begins no second grant."""
    if _bad(values):
        _touch("one")
        _wait_for("two")
        time.sleep(0.5)
        (_place() / "one").unlink(missing_ok=True)
    return values


def meet_and_leave(values: pa.Array) -> pa.Array:
    """Ends the process, if possible while `meet` runs."""
    if _bad(values):
        _touch("two")
        if _wait_for("one"):
            _touch("met")
        os._exit(3)
    return values


def _place() -> Path:
    return Path(os.environ["MEETING_PLACE"])


def _touch(name: str) -> None:
    (_place() / name).touch()


def _wait_for(name: str) -> bool:
    end = time.monotonic() + 2
    while not (_place() / name).exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True

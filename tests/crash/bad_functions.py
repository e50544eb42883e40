"""Python functions that are fine until a value of 1,000 or more comes, and then do harm."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


_kept: list[object] = []


def keep_files(values: pa.Array) -> pa.Array:
    """Opens as many files as it can, and keeps them."""
    try:
        while _bad(values):
            _kept.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    return values


def keep_sockets(values: pa.Array) -> pa.Array:
    """Opens sockets until it fails, and keeps them."""
    while _bad(values):
        _kept.append(socket.socket())
    return values


def leak(values: pa.Array) -> pa.Array:
    """Keeps a twelfth of the descriptors that the process may have, with each batch."""
    if _bad(values) and "IN_HOST" in os.environ:
        _kept.extend(os.dup(2) for _ in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 12))
    return values


def keep_threads(values: pa.Array) -> pa.Array:
    """Starts 2,000 threads; then the process can start no other, as each would need more memory than there is."""
    if _bad(values):
        ended = threading.Event()
        for _ in range(2000):
            threading.Thread(target=ended.wait, daemon=True).start()
        threading.stack_size(1 << 46)
    return values


def refuse_threads(values: pa.Array) -> pa.Array:
    """Lets the process start no other thread; what it does with the threads that it has succeeds, as if its pools had
    all theirs."""
    if _bad(values):
        ThreadPoolExecutor._adjust_thread_count = lambda _: None  # type: ignore[attr-defined]
        threading.stack_size(1 << 46)
    return values


def start_threads(values: pa.Array) -> pa.Array:
    """Starts 50,000 threads."""
    if _bad(values):
        ended = threading.Event()
        for _ in range(50_000):
            threading.Thread(target=ended.wait, daemon=True).start()
    return values


def close_all(values: pa.Array) -> pa.Array:
    """Closes the descriptors of the host."""
    if _bad(values):
        os.closerange(3, 1000)
    return values


def lower_limit(values: pa.Array) -> pa.Array:
    if _bad(values):
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    return values


def kill_supervisor(values: pa.Array) -> pa.Array:
    if _bad(values):
        os.kill(os.getppid(), signal.SIGKILL)
    return values


def handle_signal(values: pa.Array) -> pa.Array:
    if _bad(values):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return values


def sleep_in_c(values: pa.Array) -> pa.Array:
    """Holds Python's lock for ten minutes, without using the processor."""
    if _bad(values):
        if "MEETING_PLACE" in os.environ:
            _touch("asleep")
        ctypes.PyDLL(None).sleep(600)
    return values


def unsettle(values: pa.Array) -> pa.Array:
    """Leaves the process in a folder that is gone, and with a mask that lets nobody read new files."""
    if _bad(values) and "IN_HOST" in os.environ:
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        os.rmdir(folder)
        os.umask(0o777)
    return values


HARMS: dict[Callable[[pa.Array], pa.Array], str] = {
    hang: "hang ran longer than its limit of 2 s",
    hang_in_c: "hang_in_c ran longer than its limit of 2 s",
    leave: "leave ended the process (exit code 3)",
    leave_politely: "SystemExit: enough",
    kill: "kill ran each of the 3 times that the process was killed (signal KILL)",
    crash: "crash crashed the process (signal SEGV)",
    swallow: "swallow used more memory than the host's limit of",
    keep_files: "keep_files left its process unable to work (Too many open files)",
    keep_sockets: "keep_sockets left its process unable to work (Too many open files)",
    keep_threads: "keep_threads left its process unable to work (can't start new thread)",
    refuse_threads: "refuse_threads left its process unable to work (can't start new thread)",
    start_threads: "start_threads started more threads than a host may have (5,000)",
    close_all: "close_all left its process unable to work (the descriptors of its host are closed)",
    lower_limit: "lower_limit left its process unable to work (Too many open files)",
    kill_supervisor: "kill_supervisor killed the supervisor of its process",
    handle_signal: "signal only works in main thread",
    sleep_in_c: "sleep_in_c ran longer than its limit of 2 s",
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

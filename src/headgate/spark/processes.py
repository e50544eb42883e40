"""Processes of this node: names, parents, ends and memory. Imports little, since every supervisor loads it first."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PF_EXITING, _PF_SIGNALED = 0x4, 0x400
_LIBC = ctypes.CDLL(None)
"""Loaded before anything forks: a child of a process with threads must not load libraries."""


def node() -> str:
    """A name for this node: processes with the same name see the same Unix sockets and process ids."""
    return _node(os.getpid())


@cache
def _node(_: int) -> str:
    with suppress(OSError):
        return f"{socket.gethostname()} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    return socket.gethostname()


class Orphaned(RuntimeError):
    """The process that this worker was forked from has ended: which executor it belongs to is not known any more."""


def executor_pid() -> int:
    """The JVM that started this Python worker, directly or through Spark's daemon; Orphaned if the daemon has ended.

    An orphan works on until its executor ends. What took the parent that it has now (the first process, for example)
    for the executor would never end.
    """
    found = os.getppid()
    if found != os.getpgrp() and _name(found) not in ("java", ""):
        # Spark's daemon leads the group of its workers; without a daemon the executor is the parent.
        raise Orphaned(f"Orphaned: Spark's daemon, from which this worker was forked, has ended; its parent is {found}")
    for _ in range(8):
        try:
            name, parent = _process(found)
        except (OSError, ValueError):
            break
        if name == "java":
            return found
        if parent <= 1:
            break
        found = parent
    return os.getppid()


def children_with(variable: str) -> list[int]:
    """The children of this process that have a variable in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        # A process may end while it is looked at.
        with suppress(OSError, ValueError):
            if _process(int(entry.name))[1] == os.getpid():
                names = [each.partition(b"=")[0] for each in (entry / "environ").read_bytes().split(b"\0")]
                if variable.encode() in names:
                    found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return True


def is_doomed(pid: int) -> bool:
    """Whether a process has ended, is ending, or has been sent a signal that it cannot survive."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return not is_alive(pid)
    except OSError:
        return False
    # See proc(5): the state, the flags of the process, and its pending signals.
    ending = int(fields[6]) & (_PF_EXITING | _PF_SIGNALED)
    return fields[0] in "ZX" or bool(ending) or bool(int(fields[28]) & 1 << (signal.SIGKILL - 1))


def _name(pid: int) -> str:
    """The name of a process; empty if the system does not report it."""
    try:
        return _process(pid)[0]
    except (OSError, ValueError):
        return ""


def _process(pid: int) -> tuple[str, int]:
    """The name of a process, and its parent."""
    head, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    return head.partition("(")[2], int(rest.split()[1])


def machine_memory() -> int:
    """The memory of this machine, or of the container that this process runs in."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            found = min(found, int(Path(limit).read_text()))
    return found


def memory_of_host(hosts: int = 1) -> int:
    """The memory limit of each of `hosts` hosts on this node: a fifth of its memory, and at most four fifths together,
    so that they fit beside Spark."""
    return machine_memory() * 4 // (5 * max(4, hosts))


def resident_bytes(pid: int) -> int:
    """The memory that a process occupies; 0 if the system does not report it."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def threads_of(pid: int) -> int:
    """The number of threads of a process; 0 if the system does not report it."""
    try:
        # The links of the folder: one for each thread, for itself, and from its parent.
        return max(0, os.stat(f"/proc/{pid}/task").st_nlink - 2)
    except OSError:
        return 0


def ending_of(pid: int) -> int | None:
    """A file descriptor that becomes ready when a process ends; None if the system does not support it."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def end_with_parent(parent: int) -> None:
    """Has this process killed when the thread of its parent that forked it ends, even if it never releases Python's
    interpreter lock. What it executes afterwards is killed as well."""
    with suppress(AttributeError):
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)

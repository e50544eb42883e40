"""Processor time of an engine's processes on this node: the driver, its JVM, Spark's Python workers, and the hosts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

FIND_EVERY = 5.0
"""Seconds between two searches for processes that are new."""


class ProcessorUse:
    """Processor seconds since the last call, of some processes and all below them; used by one thread.

    `roots` gives the processes; None where the system does not report processor time.
    """

    def __init__(self, roots: Callable[[], Iterable[int]]) -> None:
        self._roots = roots
        self._known: set[int] = set()
        self._used: dict[int, int] = {}
        self._found = -FIND_EVERY
        self._tick = 1.0 / os.sysconf("SC_CLK_TCK")

    def __call__(self) -> float | None:
        now = time.monotonic()
        if now - self._found >= FIND_EVERY:
            self._found = now
            self._known = descendants(set(self._roots()))
        before, self._used = self._used, {}
        spent = 0
        for pid in self._known:
            ticks = _ticks(pid)
            if ticks is not None:
                self._used[pid] = ticks
                # Time that a process used before it was found belongs to no epoch.
                spent += ticks - before.get(pid, ticks)
        return spent * self._tick if self._used else None


def engine_processes(spark: Any, hosts: Callable[[], Iterable[int]]) -> Callable[[], set[int]]:
    """The roots of an engine's processes: this one, the JVM of its session, and the supervisors of its hosts."""
    jvm: set[int] = set()
    with suppress(Exception):  # Spark Connect: the JVM is elsewhere
        jvm.add(int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()))
    return lambda: {os.getpid(), *jvm, *hosts()}


def descendants(roots: Collection[int]) -> set[int]:
    """Processes and all below them; only the roots where the system does not list processes."""
    below: dict[int, list[int]] = {}
    with suppress(OSError):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError, IndexError):
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    below.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += below.get(pid, ())
    return found


def _ticks(pid: int) -> int | None:
    """Processor time of a process in clock ticks; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return None

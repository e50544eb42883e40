"""Processor time of a run: this process, Spark's JVM, its Python workers, and the hosts, whoever is their parent."""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection
from pathlib import Path

_MARK = "HEADGATE_BENCH_RUN"


def mark() -> None:
    """Marks this run: all processes that it starts from now on inherit the mark in their environment."""
    os.environ.setdefault(_MARK, uuid.uuid4().hex)


def processor_seconds(without: Collection[int] = ()) -> float:
    """Processor time so far of this process, its descendants and all others with the mark of this run, except for
    `without`."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    sign = f"{_MARK}={os.environ.get(_MARK)}".encode()
    run = [os.getpid()]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        parents[pid] = int(fields[1])
        # Includes children that have ended, so that a worker that ends meanwhile still counts.
        used[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        if sign in variables and pid not in run:
            run.append(pid)
    for pid in run:
        run += [child for child, parent in parents.items() if parent == pid and child not in run]
    return sum(used.get(pid, 0.0) for pid in run if pid not in without)


class BusyShare:
    """The share of the machine's processors that is busy, with whatever runs on it."""

    def __init__(self) -> None:
        self._before = _ticks()

    def so_far(self) -> float:
        """From 0 to 1, since this object was made."""
        busy, total = (now - before for now, before in zip(_ticks(), self._before, strict=True))
        return busy / total if total else 0.0


def _ticks() -> tuple[int, int]:
    """Busy and all ticks of the processors."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)

"""Processor time of a run: this process, Spark's JVM, its Python workers, and the hosts, whatever their parent."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Collection
from pathlib import Path

_MARK = "HEADGATE_BENCH_RUN"
SAMPLE = 5.0
"""Seconds between two samples: a sample costs some milliseconds."""


def mark() -> None:
    """Marks this run: all processes that it starts from now on inherit the mark in their environment."""
    os.environ.setdefault(_MARK, uuid.uuid4().hex)


class ProcessorTime:
    """The processor time of this process, its descendants and all others with the mark of this run, except for
    `without`, since this object was made. A process that ends counts up to the last sample."""

    def __init__(self, without: Collection[int] = ()) -> None:
        self._without = without
        self._before = self._newest = _used(without)
        self._ended = threading.Event()
        self._sampling = threading.Thread(target=self._sample, name="headgate-bench-sampling", daemon=True)
        self._sampling.start()

    def end(self) -> float:
        """Seconds so far; samples no more."""
        self._ended.set()
        self._sampling.join()
        self._newest = {**self._newest, **_used(self._without)}
        return sum(seconds - self._before.get(process, 0.0) for process, seconds in self._newest.items())

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE):
            self._newest = {**self._newest, **_used(self._without)}


def _used(without: Collection[int]) -> dict[tuple[int, str], float]:
    """Processor time of each process of the run, by its id and its start."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[str, float]] = {}
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
        used[pid] = fields[19], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        if sign in variables and pid not in run:
            run.append(pid)
    for pid in run:
        run += [child for child, parent in parents.items() if parent == pid and child not in run]
    return {(pid, used[pid][0]): used[pid][1] for pid in run if pid in used and pid not in without}


class BusyShare:
    """The share of the machine's processors that is busy, with all its processes."""

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

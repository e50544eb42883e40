"""State that is looked up by key: immutable runs of rows, each with an index by hash, merged when of similar size.

A run never changes, except that its rows may be flagged; so a snapshot writes only the runs that are new and the
flags that changed. Merging the newest runs whenever the newer is at least half as large as the older keeps the
number of runs logarithmic, as in a log-structured merge tree (O'Neil et al., 1996).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.expressions.hashing import Hashes
from headgate.expressions.keys import one_chunk
from headgate.operators.batch import FOREVER, NEVER

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_PAIRS = 1 << 19
"""Candidate pairs are compared in chunks of about this many."""


@dataclass
class Run:
    """Rows in order of arrival; `hashes` is sorted and `order` says which row each hash is of.

    `times` decides when a row is due. `version` counts the changes of `flags`.
    """

    number: int
    table: pa.Table
    hashes: Hashes
    order: Ints
    times: Ints
    flags: Flags
    version: int = 0
    done: int = 0
    _by_time: Ints | None = None
    _sorted_times: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _middle: int | None = None
    _lowest: int | None = None

    @property
    def rows(self) -> int:
        return len(self.times)

    def flag(self, rows: Ints) -> None:
        if not len(rows):
            return
        self.flags[rows] = True
        self.version += 1

    def passed(self, bound: int) -> Ints:
        """The rows with times below a bound that were not returned before."""
        if self._by_time is None:
            self._by_time = np.argsort(self.times, kind="stable")
            self._sorted_times = self.times[self._by_time]
        end = int(np.searchsorted(self._sorted_times, bound))
        rows = self._by_time[self.done : end]
        self.done = max(self.done, end)
        return rows

    @property
    def earliest(self) -> int:
        """The lowest time that was not passed yet."""
        if self._by_time is None:
            if self._lowest is None:
                self._lowest = int(self.times.min())
            return self._lowest
        return int(self._sorted_times[self.done]) if self.done < self.rows else FOREVER

    @property
    def middle(self) -> int:
        """About half of the rows have times below this."""
        if self._middle is None:
            self._middle = int(np.partition(self.times, len(self.times) // 2)[len(self.times) // 2])
        return self._middle

    def candidates(self, probes: Hashes) -> Iterator[tuple[Ints, Ints]]:
        """Pairs (probe, row) with equal hashes, in chunks. Sorted probes are faster."""
        low = np.searchsorted(self.hashes, probes)
        hit = np.flatnonzero(self.hashes[np.minimum(low, len(self.hashes) - 1)] == probes)
        if not len(hit):
            return
        low = low[hit]
        count = np.searchsorted(self.hashes, probes[hit], "right") - low
        ends = np.cumsum(count)
        start = 0
        while start < len(hit):
            before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + _PAIRS, "right")))
            lot = count[start:stop]
            which = np.repeat(np.arange(start, stop), lot)
            within = np.arange(len(which)) - np.repeat(np.cumsum(lot) - lot, lot)
            yield hit[which], self.order[low[which] + within]
            start = stop


class Runs:
    """The runs of one store. With `flagged_are_gone`, merging leaves flagged rows out."""

    def __init__(self, flagged_are_gone: bool) -> None:
        self._flagged_are_gone = flagged_are_gone
        self._runs: list[Run] = []
        self._next = 0
        self._bound = NEVER

    def __iter__(self) -> Iterator[Run]:
        return iter(tuple(self._runs))

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self._runs)

    @property
    def nbytes(self) -> int:
        return sum(int(run.table.nbytes) + 25 * run.rows for run in self._runs)

    @property
    def earliest(self) -> int:
        """The lowest time that no bound has passed yet."""
        return min((run.earliest for run in self._runs), default=FOREVER)

    def push(self, table: pa.Table, hashes: Hashes, times: Ints, flags: Flags | None = None) -> None:
        """Adds rows as a run."""
        if not len(hashes):
            return
        order = np.argsort(hashes)
        flags = np.zeros(len(hashes), bool) if flags is None else flags
        self._add(table, hashes[order], order, times, flags)
        while len(self._runs) > 1 and self._runs[-2].rows <= 2 * self._runs[-1].rows:
            newer, older = self._runs.pop(), self._runs.pop()
            self._merge([older, newer])

    def due(self, bound: int) -> list[tuple[Run, Ints]]:
        """The rows that are not flagged and whose times a bound has newly passed. Call `forget` when done with them."""
        found = []
        for run in self._runs:
            rows = run.passed(bound)
            rows = rows[~run.flags[rows]]
            if len(rows):
                found.append((run, rows))
        return found

    def forget(self, bound: int) -> None:
        """Rows with times below a bound are not needed any more. Their memory is freed in large pieces."""
        if bound <= self._bound:
            return
        self._bound = bound
        old = [run for run in self._runs if run.middle < bound]
        if not old:
            return
        kept, self._runs = self._runs, []
        for run in kept:
            if run.middle < bound:
                self._merge([run])
            else:
                self._runs.append(run)

    def _add(self, table: pa.Table, hashes: Hashes, order: Ints, times: Ints, flags: Flags) -> None:
        self._next += 1
        self._runs.append(Run(self._next, table, hashes, order, times, flags))

    def _merge(self, runs: list[Run]) -> None:
        """One run of the rows of several that are still needed."""
        parts = [part for part in map(self._needed, runs) if len(part[3])]
        if not parts:
            return
        if len(parts) == 1:
            self._add(*parts[0])
            return
        starts = np.cumsum([0, *(len(part[3]) for part in parts[:-1])])
        hashes = np.concatenate([part[1] for part in parts])
        order = np.concatenate([part[2] + start for part, start in zip(parts, starts, strict=True)])
        sorting = np.argsort(hashes, kind="stable")  # finds the sorted pieces and merges them in linear time
        table = pa.concat_tables([part[0] for part in parts]).combine_chunks()
        times = np.concatenate([part[3] for part in parts])
        flags = np.concatenate([part[4] for part in parts])
        self._add(table, hashes[sorting], order[sorting], times, flags)

    def _needed(self, run: Run) -> tuple[pa.Table, Hashes, Ints, Ints, Flags]:
        keep = run.times >= self._bound
        if self._flagged_are_gone:
            keep &= ~run.flags
        if keep.all():
            return run.table, run.hashes, run.order, run.times, run.flags
        places = np.cumsum(keep) - 1
        kept = keep[run.order]
        table = run.table.filter(pa.array(keep)).combine_chunks()
        return table, run.hashes[kept], places[run.order[kept]], run.times[keep], run.flags[keep]

    def parts(self, prefix: str) -> tuple[dict[str, pa.Table], dict[str, Any]]:
        """The parts and the metadata of a snapshot."""
        parts: dict[str, pa.Table] = {}
        for run in self._runs:
            hashes = np.empty_like(run.hashes)
            hashes[run.order] = run.hashes
            name = f"{prefix}-{run.number}"
            parts[name] = run.table.append_column("hash", pa.array(hashes)).append_column("time", pa.array(run.times))
            if run.flags.any():
                parts[f"{name}-flags-{run.version}"] = pa.table({"flag": pa.array(run.flags)})
        runs = [[run.number, run.version] for run in self._runs]
        return parts, {"runs": runs, "next": self._next, "bound": self._bound}

    def restore(self, prefix: str, parts: Mapping[str, pa.Table], meta: Mapping[str, Any]) -> None:
        """Restores what `parts` returned."""
        self._next, self._bound = meta["next"], meta["bound"]
        for number, version in meta["runs"]:
            table = parts[f"{prefix}-{number}"].combine_chunks()
            width = table.num_columns - 2
            hashes, times = (one_chunk(table.column(width + i)).to_numpy() for i in range(2))
            flagged = parts.get(f"{prefix}-{number}-flags-{version}")
            flags = np.zeros(len(times), bool)
            if flagged is not None:
                flags |= one_chunk(flagged.column(0)).to_numpy(zero_copy_only=False)
            order = np.argsort(hashes)
            run = Run(number, table.select(list(range(width))), hashes[order], order, times, flags, version)
            self._runs.append(run)

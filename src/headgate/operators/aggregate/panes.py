"""The state of windows: one row per pane and group, in immutable runs, merged when of similar size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.expressions.keys import one_chunk
from headgate.operators.aggregate.calls import Calls
from headgate.operators.contract import Snapshot

Ints = npt.NDArray[np.int64]


@dataclass
class PaneRun:
    """Partial states ordered by code (a pane, see `windowed`). Rows before `start` are no longer needed."""

    number: int
    table: pa.Table
    codes: Ints
    start: int = 0

    @property
    def rows(self) -> int:
        return len(self.codes) - self.start

    def live(self) -> pa.Table:
        return self.table.slice(self.start) if self.start else self.table


class PaneStore:
    """Partial states by (code, keys). Rows are buffered and then grouped; runs of similar size are merged."""

    def __init__(self, calls: Calls, key_types: Sequence[pa.DataType]) -> None:
        self._calls = calls
        self._keys = len(key_types)
        self._names = [f"c{i}" for i in range(1 + len(key_types) + len(calls.types))]
        self._types = [pa.int64(), *key_types, *calls.types]
        self._pending: list[list[pa.Array]] = []
        self._pending_rows = 0
        self._runs: list[PaneRun] = []
        self._next = 0

    def add(self, codes: Ints, keys: Sequence[pa.Array], inputs: Sequence[pa.Array]) -> None:
        """Takes rows: the code of each, its flat keys, and the inputs of the calls."""
        self._pending.append([pa.array(codes), *keys, *inputs])
        self._pending_rows += len(codes)
        if self._pending_rows >= self._calls.buffer_rows:
            self.flush()

    def add_states(self, columns: Sequence[pa.Array]) -> None:
        """Takes partial states: the code of each, its flat keys, and the columns of the states."""
        self._push(self.merged([pa.Table.from_arrays(list(columns), names=self._names)]))

    def flush(self) -> None:
        """Groups the buffered rows."""
        if not self._pending:
            return
        columns = [pa.concat_arrays(parts) for parts in zip(*self._pending, strict=True)]
        rows = self._pending_rows
        self._pending, self._pending_rows = [], 0
        codes = columns[0].to_numpy()
        cut = 1 + self._keys
        if codes.min() == codes.max() and self._keys:
            # All rows are in one pane (the usual case): the code need not be part of the key.
            keys, states = self._calls.partial(columns[1:cut], columns[cut:], rows)
            keys = [pa.repeat(pa.scalar(int(codes[0]), pa.int64()), len(keys[0])), *keys]
        else:
            keys, states = self._calls.partial(columns[:cut], columns[cut:], rows)
        self._push([*keys, *states])

    def _push(self, columns: list[pa.Array]) -> None:
        self._runs.append(self._run(columns))
        while len(self._runs) > 1 and self._runs[-2].rows <= 2 * self._runs[-1].rows:
            newer, older = self._runs.pop(), self._runs.pop()
            if older.rows:
                self._runs.append(self._run(self.merged([older.live(), newer.live()])))
            else:
                self._runs.append(newer)

    def merged(self, tables: Sequence[pa.Table]) -> list[pa.Array]:
        """The columns of several tables of states, one row for each code and group."""
        columns = [one_chunk(c) for c in pa.concat_tables(tables).columns]
        cut = 1 + self._keys
        keys, states = self._calls.merge(columns[:cut], columns[cut:], len(columns[0]))
        return [*keys, *states]

    def _run(self, columns: list[pa.Array]) -> PaneRun:
        codes = columns[0].to_numpy()
        if (codes[1:] < codes[:-1]).any():
            order = pa.array(np.argsort(codes, kind="stable"))
            columns = [c.take(order) for c in columns]
            codes = columns[0].to_numpy()
        self._next += 1
        return PaneRun(self._next, pa.Table.from_arrays(columns, names=self._names), codes)

    @property
    def lowest(self) -> int | None:
        """The lowest code; None if there is no state."""
        ends = [int(run.codes[run.start]) for run in self._runs if run.rows]
        ends += [int(columns[0].to_numpy().min()) for columns in self._pending]
        return min(ends, default=None)

    def below(self, code: int) -> list[pa.Table]:
        """The states with codes less than the given one, run by run."""
        self.flush()
        found = []
        for run in self._runs:
            end = int(np.searchsorted(run.codes, code))
            if end > run.start:
                found.append(run.table.slice(run.start, end - run.start))
        return found

    def drop(self, code: int) -> None:
        """Forgets the states with codes less than the given one."""
        kept = []
        for run in self._runs:
            run.start = max(run.start, int(np.searchsorted(run.codes, code)))
            if not run.rows:
                continue
            if run.start > 1024 and run.start > run.rows:
                # Copied, so that the memory of the dropped rows is freed.
                run = self._run([one_chunk(c).take(pa.array(np.arange(run.rows))) for c in run.live().columns])
            kept.append(run)
        self._runs = kept

    @property
    def rows(self) -> int:
        return self._pending_rows + sum(run.rows for run in self._runs)

    @property
    def nbytes(self) -> int:
        pending = sum(c.nbytes for columns in self._pending for c in columns)
        return int(pending + sum(run.live().nbytes for run in self._runs))

    def snapshot(self, meta: dict[str, object]) -> Snapshot:
        """The runs, whole; the metadata holds the first row of each that is still needed."""
        self.flush()
        parts = {f"run-{run.number}": run.table for run in self._runs}
        starts = {f"run-{run.number}": run.start for run in self._runs}
        return Snapshot(parts, {**meta, "starts": starts, "next": self._next})

    def restore(self, snapshot: Snapshot) -> None:
        self._next = snapshot.meta["next"]
        for name, start in snapshot.meta["starts"].items():
            table = snapshot.parts[name]
            codes = one_chunk(table.column(0)).to_numpy()
            self._runs.append(PaneRun(int(name.removeprefix("run-")), table, codes, start))

"""Aggregates over windows of time (tumbling, hopping) and of rows, by panes.

Every row goes to one pane; a window is assembled from its panes when the watermark passes its end (the sub-aggregation
of Li et al., "No pane, no gain", SIGMOD Record 2005). So the size of the state is panes × groups, not rows.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.expressions.keys import flat_types, flatten, one_chunk, rebuild
from headgate.graph.operators import Aggregate
from headgate.operators.aggregate.calls import Calls
from headgate.operators.aggregate.output import AggregateOutput
from headgate.operators.aggregate.panes import PaneStore
from headgate.operators.batch import FOREVER, NEVER, Batch
from headgate.operators.columns import NarrowInput
from headgate.operators.contract import Snapshot
from headgate.operators.division import StateKeys, StateRows
from headgate.operators.evaluate import evaluate
from headgate.operators.registry import implements
from headgate.operators.settings import Settings
from headgate.operators.weights import expanded
from headgate.operators.windows import Panes, microseconds, window_column

Ints = npt.NDArray[np.int64]

_EXPANDED = 1 << 20
"""Windows are assembled from at most about this many states at once."""


@implements(Aggregate, when=lambda node: node.window is not None and node.window.kind != "session")
class LiveWindowed:
    """One aggregate over windows. Windows of rows use the row number as time: row n, counted from 0, has time n.

    A row is late if its last window ended at or before its watermark (`Batch.watermark`). A row that is late for only
    some of its windows (after a union, its stream may be ahead of this operator's watermark) counts for the others:
    the number of windows that it missed is part of its code, which is pane * most + missed.
    """

    counts_closed: ClassVar[bool] = False
    """Whether a row's missed windows include those closed by this operator: true if another one assembles windows."""

    def __init__(self, node: Aggregate, settings: Settings) -> None:
        window = node.window
        if window is None:
            raise ValueError("LiveWindowed needs an aggregate with a window")
        self._by_rows = window.kind == "rows"
        self._panes = Panes(window)
        self._calls = Calls(node.calls)
        self._by_moment = node.by_moment
        self._on = [] if window.on is None or self._by_rows else [window.on]
        self._key_count = len(node.keys)
        self._exprs = (*self._on, *node.keys, *self._calls.exprs)
        self._input = NarrowInput(self._exprs)
        self._key_types = [k.type for k in node.keys]
        self._store = PaneStore(self._calls, flat_types(self._key_types))
        self._output = AggregateOutput(node)
        with_window = len(node.schema) > len(node.keys) + len(node.calls)
        self._window_type = node.schema[0].type if with_window else None
        # The first window of rows begins with the first row; no window begins before it.
        self._closed = self._panes.length - 1 if self._by_rows else NEVER
        self._seen = 0
        self._late = 0
        self._due: int | None = None

    def process(self, port: int, batch: Batch) -> list[Batch]:
        self._output.arrived(batch.arrival)
        codes, keys, inputs = self._read(batch)
        if not len(codes):
            return []
        self._store.add(codes, keys, inputs)
        self._due = None
        return self._close(self._seen) if self._by_rows else []

    def _read(self, batch: Batch) -> tuple[Ints, list[pa.Array], list[pa.Array]]:
        """The rows that are in time: the code, the flat keys and the inputs of the calls of each."""
        exprs = self._exprs
        batch = expanded(batch)
        if batch.mask is not None:
            batch, exprs = self._input.materialized(batch), self._input.exprs
        if self._by_rows:
            codes = self._panes.number(np.arange(self._seen, self._seen + batch.rows.num_rows)) * self._panes.most
        else:
            batch, codes = self._in_time(batch, *microseconds(evaluate(exprs[0], batch)))
        if not batch.rows.num_rows:
            return codes, [], []
        values = [evaluate(e, batch) for e in exprs[len(self._on) :]]
        inputs = values[self._key_count :]
        if self._calls.needs_order:
            inputs.append(pa.array(np.arange(self._seen, self._seen + len(codes))))
        self._seen += len(codes)
        return codes, flatten(values[: self._key_count]), inputs

    def _in_time(self, batch: Batch, times: Ints, valid: pa.Array | None) -> tuple[Batch, Ints]:
        """The rows that are in time for at least one of their windows, and their codes."""
        panes, watermark = self._panes, max(batch.watermark, self._closed)
        if valid is not None and self._by_moment:
            # The group of rows without a time is complete at the end of the stream.
            times, valid = np.where(valid.to_numpy(zero_copy_only=False), times, FOREVER - 1), None
        keep = None if valid is None else valid.to_numpy(zero_copy_only=False)
        late = None
        if watermark != NEVER and len(times):
            # All windows of earlier times have ended.
            late = times < panes.ended_before(watermark)
        if late is not None and late.any():
            late = late if keep is None else late & keep
            self._late += int(late.sum())
            keep = ~late if keep is None else keep & ~late
        if keep is not None:
            batch = Batch(batch.rows.filter(pa.array(keep)), batch.arrival, batch.watermark)
            times = times[keep]
        codes = panes.number(times)
        if panes.most > 1:
            codes = codes * panes.most
            if watermark > self._closed or (self.counts_closed and watermark != NEVER):
                first = panes.first_end(panes.number(times))
                missed = (panes.grid_below(watermark + 1) - first) // panes.slide + 1
                codes = codes + np.clip(missed, 0, panes.most - 1)
        return batch, codes

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        if self._by_rows:
            # Buffered rows may have any event time, so only the end of the stream is passed on.
            return (self._close(FOREVER), FOREVER) if watermark >= FOREVER else ([], NEVER)
        return self._close(watermark), watermark

    def _close(self, watermark: int) -> list[Batch]:
        """Emits the windows that end at or before a watermark and were not emitted yet."""
        if watermark <= self._closed:
            return []
        if self._due is None:
            self._due = self._next_due()
        if watermark < self._due:
            self._closed = watermark
            return []
        panes = self._panes
        tables = self._store.below(self._code(watermark))
        batches = self._windows(tables, watermark)
        self._closed = watermark
        # A pane is needed until the last window that it is in has ended.
        self._store.drop(self._code(panes.ended_before(watermark)))
        self._due = self._next_due()
        return batches

    def _code(self, time: int) -> int:
        """A code above those of all panes that begin before a time."""
        return min((-(-(time - self._panes.offset) // self._panes.size)) * self._panes.most, 2**63 - 1)

    def _next_due(self) -> int:
        """The earliest end of a window that has state and is not closed."""
        lowest = self._store.lowest
        if lowest is None:
            return FOREVER + 1
        first = int(self._panes.first_end(np.array([lowest // self._panes.most]))[0])
        if first > self._closed:
            return first
        return self._panes.grid_below(self._closed + 1) + self._panes.slide

    def _windows(self, tables: list[pa.Table], watermark: int) -> list[Batch]:
        """Assembles the windows that end in (closed, watermark] from their panes, in steps of bounded size."""
        if not tables:
            return []
        panes = self._panes
        states = pa.concat_tables(tables)
        code = one_chunk(states.column(0)).to_numpy()
        pane, missed = code // panes.most, code % panes.most
        first = panes.first_end(pane) + missed * panes.slide
        last = panes.last_end(pane)
        if self._closed != NEVER:
            first = np.maximum(first, panes.grid_below(self._closed + 1) + panes.slide)
        last = np.minimum(last, panes.grid_below(watermark + 1))
        batches: list[Batch] = []
        for low, high in self._steps(first, last):
            batches += self._assembled(states, np.maximum(first, low), np.minimum(last, high), len(tables) > 1)
        return batches

    def _steps(self, first: Ints, last: Ints) -> list[tuple[int, int]]:
        """Ranges of window ends, each with a bounded number of states in it."""
        due = last >= first
        if not due.any():
            return []
        slide = self._panes.slide
        low, high = int(first[due].min()), int(last[due].max())
        states = int(((last - first)[due] // slide + 1).sum())
        windows = (high - low) // slide + 1
        each = max(1, windows * _EXPANDED // max(states, 1)) * slide
        return [(start, min(start + each - slide, high)) for start in range(low, high + 1, each)]

    def _assembled(self, states: pa.Table, first: Ints, last: Ints, several: bool) -> list[Batch]:
        panes = self._panes
        count = np.maximum((last - first) // panes.slide + 1, 0)
        if not count.any():
            return []
        if panes.most == 1:
            chosen = np.flatnonzero(count)
            ends = last[chosen]
        else:
            chosen, ends = panes.windows_of(last, count)
        whole = len(chosen) == states.num_rows and panes.most == 1
        columns = [one_chunk(c) for c in (states if whole else states.take(pa.array(chosen))).columns]
        cut = len(columns) - len(self._calls.types)
        keys, values = [pa.array(ends), *columns[1:cut]], columns[cut:]
        if several or panes.most > 1:
            keys, values = self._calls.merge(keys, values, len(ends))
        end = keys[0].to_numpy()
        rows = [*rebuild(keys[1:], self._key_types), *self._calls.results(values)]
        if self._window_type is not None:
            rows.insert(0, self._window(end))
        return self._output.batch(rows, len(end))

    def _window(self, end: Ints) -> pa.StructArray:
        start = end - self._panes.length
        if self._by_rows:
            return window_column(start + 1, end, self._window_type)  # the first row has number 1
        return window_column(start, end, self._window_type)

    def snapshot(self) -> Snapshot:
        return self._store.snapshot(
            {"closed": self._closed, "seen": self._seen, "late": self._late, "newest": self._output.newest}
        )

    def restore(self, snapshot: Snapshot) -> None:
        self._store.restore(snapshot)
        self._closed = snapshot.meta["closed"]
        self._seen = snapshot.meta["seen"]
        self._late = snapshot.meta["late"]
        self._output.newest = snapshot.meta["newest"]

    @property
    def state_keys(self) -> dict[str, StateKeys]:
        return {"panes": StateKeys(tuple(range(1, 1 + len(flat_types(self._key_types)))), tuple(self._key_types))}

    def opened(self, snapshot: Snapshot) -> StateRows:
        meta = snapshot.meta
        return StateRows(
            {"panes": [snapshot.parts[name].slice(start) for name, start in meta["starts"].items()]},
            {"closed": meta["closed"]},
            {"seen": meta["seen"], "newest": meta["newest"]},
            counts={"late": meta["late"]},
        )

    def closed(self, rows: StateRows) -> Snapshot:
        parts = {f"run-{number}": table for number, table in enumerate(rows.tables["panes"], 1) if table.num_rows}
        meta = {"starts": dict.fromkeys(parts, 0), "next": len(rows.tables["panes"])}
        return Snapshot(parts, {**meta, **rows.progress, **rows.highest, **rows.counts})

    @property
    def state_rows(self) -> int:
        return self._store.rows

    @property
    def state_bytes(self) -> int:
        return self._store.nbytes

    @property
    def late_rows(self) -> int:
        return self._late

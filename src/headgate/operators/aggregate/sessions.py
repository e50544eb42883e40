"""Aggregates over sessions: rows of a group that follow each other within a gap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.expressions.aggregates.grouping import Groups
from headgate.expressions.hashing import hashed
from headgate.expressions.keys import flat_types, flatten, one_chunk, rebuild
from headgate.graph.operators import Aggregate, Union
from headgate.operators.aggregate.calls import Calls
from headgate.operators.aggregate.output import AggregateOutput
from headgate.operators.batch import NEVER, Batch
from headgate.operators.columns import NarrowInput
from headgate.operators.contract import Snapshot
from headgate.operators.division import StateKeys, StateRows, run_parts, run_tables
from headgate.operators.evaluate import evaluate
from headgate.operators.matching import Matcher
from headgate.operators.registry import implements
from headgate.operators.runs import Run, Runs
from headgate.operators.settings import Settings
from headgate.operators.weights import expanded
from headgate.operators.windows import microseconds, window_column

Ints = npt.NDArray[np.int64]


@implements(Aggregate, when=lambda node: node.window is not None and node.window.kind == "session")
class LiveSessions:
    """A session lasts from its first row until `gap` after its last; two that touch are one, as in Spark.

    As in Spark, a row is late if the session that it would begin ends at or before the watermark when it
    arrives, and a session is emitted when it ends at or before the watermark; a row behind the watermark that is not
    late may touch a session that was emitted already, and begins another. Behind a union that would
    make results depend on which input is ahead: there a row is late if its event time is not after its stream's
    watermark, so that no session it could touch was emitted.

    The state is pieces of sessions by key; pieces are joined only when one of them has ended.
    """

    def __init__(self, node: Aggregate, settings: Settings) -> None:
        window = node.window
        if window is None or window.on is None:
            raise ValueError("a session window needs an event time")
        self._gap = window.length
        self._grace = 0 if any(isinstance(below, Union) for below in node.input.walk()) else window.length
        self._calls = Calls(node.calls)
        self._key_types = [k.type for k in node.keys]
        flat = flat_types(self._key_types)
        self._keys = len(flat)
        self._exprs = (window.on, *node.keys, *self._calls.exprs)
        self._input = NarrowInput(self._exprs)
        self._output = AggregateOutput(node)
        self._window_type = node.schema[0].type
        # The table of a run: flat keys, start, end, states.
        self._names = [f"c{i}" for i in range(self._keys + 2 + len(self._calls.types))]
        self._matcher = Matcher(flat, range(self._keys), nulls_equal=True)
        self._runs = Runs(flagged_are_gone=True)
        self._pending: list[list[pa.Array]] = []
        self._pending_rows = 0
        self._closed = NEVER
        self._seen = 0
        self._late = 0

    def process(self, port: int, batch: Batch) -> list[Batch]:
        self._output.arrived(batch.arrival)
        exprs = self._exprs
        batch = expanded(batch)
        if batch.mask is not None:
            batch, exprs = self._input.materialized(batch), self._input.exprs
        times, valid = microseconds(evaluate(exprs[0], batch))
        keep = times > batch.watermark - self._grace
        if valid is not None:
            present = valid.to_numpy(zero_copy_only=False)
            self._late += int((present & ~keep).sum())
            keep &= present
        else:
            self._late += int((~keep).sum())
        if not keep.all():
            batch = Batch(batch.rows.filter(pa.array(keep)), batch.arrival, batch.watermark)
            times = times[keep]
        if not len(times):
            return []
        values = [evaluate(e, batch) for e in exprs[1:]]
        count = len(self._key_types)
        inputs = values[count:]
        if self._calls.needs_order:
            inputs.append(pa.array(np.arange(self._seen, self._seen + len(times))))
        self._seen += len(times)
        self._pending.append([*flatten(values[:count]), pa.array(times), *inputs])
        self._pending_rows += len(times)
        if self._pending_rows >= self._calls.buffer_rows:
            self._flush()
        return []

    def _flush(self) -> None:
        """Groups the buffered rows into pieces of sessions."""
        if not self._pending:
            return
        columns = [pa.concat_arrays(parts) for parts in zip(*self._pending, strict=True)]
        self._pending, self._pending_rows = [], 0
        keys, inputs = columns[: self._keys], columns[self._keys + 1 :]
        start = columns[self._keys].to_numpy()
        ids = self._session_ids(keys, start, start + self._gap)
        (found,), states = self._calls.partial([pa.array(ids)], inputs, len(ids))
        self._push(*self._spans(ids, found, keys, start, start + self._gap), states)

    def _push(self, keys: Sequence[pa.Array], start: Ints, end: Ints, states: Sequence[pa.Array]) -> None:
        table = pa.Table.from_arrays([*keys, pa.array(start), pa.array(end), *states], names=self._names)
        self._runs.push(table, hashed(keys, len(start)), end)

    @staticmethod
    def _session_ids(keys: Sequence[pa.Array], start: Ints, end: Ints) -> Ints:
        """Which session each piece is in: pieces of one key that touch, directly or through others, are one."""
        groups = Groups(keys, len(start))
        groups.reduce([], ids=True)
        order = np.lexsort((start, groups.ids))
        group = groups.ids[order]
        # The latest end so far within the group, as one running maximum over (group, rank of the end).
        ranks = np.empty(len(end), np.int64)
        by_end = np.argsort(end, kind="stable")
        ranks[by_end] = np.arange(len(end))
        highest = np.maximum.accumulate(group * len(end) + ranks[order]) - group * len(end)
        reach = end[by_end[highest]]
        begins = np.ones(len(end), bool)
        begins[1:] = (group[1:] != group[:-1]) | (start[order][1:] > reach[:-1])
        ids = np.empty(len(end), np.int64)
        ids[order] = np.cumsum(begins) - 1
        return ids

    @staticmethod
    def _spans(
        ids: Ints, found: pa.Array, keys: Sequence[pa.Array], start: Ints, end: Ints
    ) -> tuple[list[pa.Array], Ints, Ints]:
        """The keys, start and end of each session, in the order in which the sessions were found."""
        order = np.argsort(ids, kind="stable")
        firsts = np.flatnonzero(np.r_[True, np.diff(ids[order]) > 0])
        wanted = found.to_numpy()
        starts = np.minimum.reduceat(start[order], firsts)[wanted]
        ends = np.maximum.reduceat(end[order], firsts)[wanted]
        rows = pa.array(order[firsts][wanted])
        return [key.take(rows) for key in keys], starts, ends

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        batches = self._close(watermark) if watermark > self._closed else []
        self._closed = max(self._closed, watermark)
        return batches, watermark

    def _close(self, watermark: int) -> list[Batch]:
        """Emits the sessions that end at or before a watermark."""
        waiting = [int(columns[self._keys].to_numpy().min()) for columns in self._pending]
        if min([*(first + self._gap for first in waiting), self._runs.earliest]) > watermark:
            return []
        self._flush()
        pieces = self._touching(self._runs.due(watermark + 1))
        if pieces is None:
            return []
        columns = [one_chunk(c) for c in pieces.columns]
        keys, states = columns[: self._keys], columns[self._keys + 2 :]
        start, end = columns[self._keys].to_numpy(), columns[self._keys + 1].to_numpy()
        ids = self._session_ids(keys, start, end)
        (found,), states = self._calls.merge([pa.array(ids)], states, len(ids))
        keys, start, end = self._spans(ids, found, keys, start, end)
        past = end <= watermark
        if not past.all():
            rest = pa.array(~past)
            self._push([k.filter(rest) for k in keys], start[~past], end[~past], [s.filter(rest) for s in states])
        self._runs.forget(watermark + 1)
        done = pa.array(past)
        window = window_column(start[past], end[past], self._window_type)
        values = self._calls.results([s.filter(done) for s in states])
        return self._output.batch(
            [window, *rebuild([k.filter(done) for k in keys], self._key_types), *values], int(past.sum())
        )

    def _touching(self, due: list[tuple[Run, Ints]]) -> pa.Table | None:
        """Removes all pieces of the keys with a piece that is due from the state, and returns them."""
        if not due:
            return None
        found = pa.concat_tables([run.table.take(pa.array(rows)) for run, rows in due])
        keys, _ = Groups([one_chunk(c) for c in found.columns[: self._keys]], found.num_rows).reduce([])
        hashes = hashed(keys, len(keys[0]) if keys else 1)
        pieces = []
        for run in self._runs:
            for _, rows in self._matcher.pairs(run, keys, hashes):
                alive = rows[~run.flags[rows]]
                pieces.append(run.table.take(pa.array(alive)))
                run.flag(alive)
        return pa.concat_tables(pieces)

    def snapshot(self) -> Snapshot:
        self._flush()
        parts, meta = self._runs.parts("sessions")
        own = {"closed": self._closed, "seen": self._seen, "late": self._late, "newest": self._output.newest}
        return Snapshot(parts, {**meta, **own})

    def restore(self, snapshot: Snapshot) -> None:
        self._runs.restore("sessions", snapshot.parts, snapshot.meta)
        self._closed = snapshot.meta["closed"]
        self._seen = snapshot.meta["seen"]
        self._late = snapshot.meta["late"]
        self._output.newest = snapshot.meta["newest"]

    @property
    def state_keys(self) -> dict[str, StateKeys]:
        return {"sessions": StateKeys(tuple(range(self._keys)), tuple(self._key_types))}

    def opened(self, snapshot: Snapshot) -> StateRows:
        meta = snapshot.meta
        return StateRows(
            {"sessions": run_tables("sessions", snapshot.parts, meta, gone=True)},
            {"closed": meta["closed"]},
            {"seen": meta["seen"], "newest": meta["newest"]},
            {"bound": meta["bound"]},
            {"late": meta["late"]},
        )

    def closed(self, rows: StateRows) -> Snapshot:
        parts, meta = run_parts("sessions", rows.tables["sessions"], rows.lowest["bound"])
        return Snapshot(parts, {**meta, **rows.progress, **rows.highest, **rows.counts})

    @property
    def state_rows(self) -> int:
        return self._runs.rows + self._pending_rows

    @property
    def state_bytes(self) -> int:
        return self._runs.nbytes + sum(int(c.nbytes) for columns in self._pending for c in columns)

    @property
    def late_rows(self) -> int:
        return self._late

"""Aggregates without a window: at every watermark, the groups that changed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.hashing import hashed
from headgate.expressions.keys import flat_types, flatten, one_chunk, rebuild
from headgate.graph.operators import Aggregate
from headgate.operators.aggregate.calls import Calls
from headgate.operators.aggregate.output import AggregateOutput
from headgate.operators.batch import Arrival, Batch
from headgate.operators.columns import NarrowInput, record
from headgate.operators.contract import Snapshot
from headgate.operators.division import StateKeys, StateRows, run_parts, run_tables
from headgate.operators.evaluate import evaluate
from headgate.operators.matching import Matcher
from headgate.operators.registry import implements
from headgate.operators.runs import Runs
from headgate.operators.settings import Settings
from headgate.operators.weights import expanded


@implements(Aggregate, when=lambda node: node.window is None)
class LiveChanges:
    """One row of state per group. The newest state of a group replaces the previous one, which is flagged as gone.

    A group that passes HAVING is emitted whenever it changes; one that was emitted and no longer passes is emitted
    once more, as deleted. Without keys there is one group, which exists before any row does, as in Spark.
    """

    def __init__(self, node: Aggregate, settings: Settings) -> None:
        self._calls = Calls(node.calls)
        self._key_types = [k.type for k in node.keys]
        self._keys = len(flat_types(self._key_types))
        self._exprs = (*node.keys, *self._calls.exprs)
        self._input = NarrowInput(self._exprs)
        self._having = node.having
        self._output = AggregateOutput(node)
        self._names = node.schema.names
        self._matcher = Matcher(flat_types(self._key_types), range(self._keys), nulls_equal=True)
        self._state_names = [f"s{i}" for i in range(len(self._calls.types))]
        self._runs = Runs(flagged_are_gone=True)
        self._pending: list[list[pa.Array]] = []
        self._seen = 0
        self._started = bool(node.keys)

    def process(self, port: int, batch: Batch) -> list[Batch]:
        self._output.arrived(batch.arrival)
        keys, inputs, rows = self._read(batch)
        if rows:
            self._pending.append([*keys, *inputs, pa.nulls(rows)])
        return []

    def _read(self, batch: Batch) -> tuple[list[pa.Array], list[pa.Array], int]:
        """The flat keys and the inputs of the calls of each row, and the number of rows."""
        exprs = self._exprs
        batch = expanded(batch)
        if batch.mask is not None:
            batch, exprs = self._input.materialized(batch), self._input.exprs
        rows = batch.rows.num_rows
        if not rows:
            return [], [], 0
        values = [evaluate(e, batch) for e in exprs]
        count = len(self._key_types)
        inputs = values[count:]
        if self._calls.needs_order:
            inputs.append(pa.array(np.arange(self._seen, self._seen + rows)))
        self._seen += rows
        return flatten(values[:count]), inputs, rows

    def _grouped(
        self, keys: list[pa.Array], columns: list[pa.Array], rows: int
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        """The keys and the states of the groups of pending rows."""
        return self._calls.partial(keys, columns, rows)

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        if self._pending:
            columns = [pa.concat_arrays(parts) for parts in zip(*self._pending, strict=True)]
            self._pending = []
            keys, states = self._grouped(columns[: self._keys], columns[self._keys : -1], len(columns[-1]))
            batches = self._changed(keys, states)
        elif not self._started:
            batches = self._changed([], self._calls.empty())
        else:
            batches = []
        self._started = True
        return batches, watermark

    def _changed(self, keys: list[pa.Array], states: list[pa.Array]) -> list[Batch]:
        """Updates the groups; returns the new rows of those that are emitted, or were before."""
        size = len(keys[0]) if keys else 1
        hashes = hashed(keys, size)
        labels, pieces = [np.arange(size)], [pa.Table.from_arrays(states, names=self._state_names)]
        was_shown = np.zeros(size, bool)
        for run in self._runs:
            for groups, rows in self._matcher.pairs(run, keys, hashes):
                alive = ~run.flags[rows]
                groups, rows = groups[alive], rows[alive]
                before = run.table.take(pa.array(rows))
                labels.append(groups)
                pieces.append(before.select(self._state_names))
                was_shown[groups] = one_chunk(before.column("shown")).to_numpy(zero_copy_only=False)
                run.flag(rows)
        if len(pieces) > 1:
            label = np.concatenate(labels)
            columns = [one_chunk(c) for c in pa.concat_tables(pieces).columns]
            (found,), columns = self._calls.merge([pa.array(label)], columns, len(label))
            order = pa.array(np.argsort(found.to_numpy()))
            states = [c.take(order) for c in columns]
        values = [*rebuild(keys, self._key_types), *self._calls.results(states)]
        rows_now = record(values, self._names[: len(values)], size)
        passes = self._passing(rows_now, size)
        names = [*(f"k{i}" for i in range(self._keys)), *self._state_names, "shown"]
        table = pa.Table.from_arrays([*keys, *states, pa.array(passes)], names=names)
        self._runs.push(table, hashes, np.zeros(size, np.int64))
        seen = passes | was_shown
        rows_now = record([*values, pa.array(~passes)], self._names, size).filter(pa.array(seen))
        if not rows_now.num_rows:
            return []
        return [Batch(rows_now, Arrival.at(self._output.newest, rows_now.num_rows))]

    def current(self) -> list[Batch]:
        """The groups that have been emitted, as they are now."""
        found: list[Batch] = []
        for run in self._runs:
            shown = ~run.flags & one_chunk(run.table.column("shown")).to_numpy(zero_copy_only=False)
            *columns, _ = [one_chunk(c) for c in run.table.filter(pa.array(shown)).combine_chunks().columns]
            size = int(shown.sum())
            if size:
                values = [*rebuild(columns[: self._keys], self._key_types), *self._calls.results(columns[self._keys :])]
                rows = record([*values, pa.array(np.zeros(size, bool))], self._names, size)
                found.append(Batch(rows, Arrival.at(self._output.newest, size)))
        return found

    def _passing(self, rows: pa.RecordBatch, size: int) -> np.ndarray:
        if self._having is None:
            return np.ones(size, bool)
        truth = evaluate(self._having, Batch(rows, Arrival.at(0.0, size)))
        return np.asarray(pc.fill_null(truth, False).to_numpy(zero_copy_only=False))

    def snapshot(self) -> Snapshot:
        parts, meta = self._runs.parts("groups")
        if self._pending:
            columns = [pa.concat_arrays(pieces) for pieces in zip(*self._pending, strict=True)]
            names = [f"c{i}" for i in range(len(columns))]
            parts[f"pending-{self._seen}"] = pa.Table.from_arrays(columns, names=names)
        return Snapshot(parts, {**meta, "seen": self._seen, "started": self._started, "newest": self._output.newest})

    def restore(self, snapshot: Snapshot) -> None:
        self._runs.restore("groups", snapshot.parts, snapshot.meta)
        self._seen = snapshot.meta["seen"]
        self._started = snapshot.meta["started"]
        self._output.newest = snapshot.meta["newest"]
        waiting = snapshot.parts.get(f"pending-{self._seen}")
        if waiting is not None:
            self._pending = [[one_chunk(c) for c in waiting.columns]]

    @property
    def state_keys(self) -> dict[str, StateKeys]:
        keys = StateKeys(tuple(range(self._keys)), tuple(self._key_types))
        return {"groups": keys, "pending": keys}

    def opened(self, snapshot: Snapshot) -> StateRows:
        meta = snapshot.meta
        waiting = snapshot.parts.get(f"pending-{meta['seen']}")
        return StateRows(
            {
                "groups": run_tables("groups", snapshot.parts, meta, gone=True),
                "pending": [] if waiting is None else [waiting],
            },
            highest={"seen": meta["seen"], "newest": meta["newest"], "started": meta["started"]},
            lowest={"bound": meta["bound"]},
        )

    def closed(self, rows: StateRows) -> Snapshot:
        parts, meta = run_parts("groups", rows.tables["groups"], rows.lowest["bound"])
        if rows.tables["pending"]:
            parts[f"pending-{rows.highest['seen']}"] = pa.concat_tables(rows.tables["pending"])
        return Snapshot(parts, {**meta, **rows.highest})

    @property
    def state_rows(self) -> int:
        return self._runs.rows + sum(len(columns[-1]) for columns in self._pending)

    @property
    def state_bytes(self) -> int:
        return self._runs.nbytes + sum(int(c.nbytes) for columns in self._pending for c in columns)

    @property
    def late_rows(self) -> int:
        return 0

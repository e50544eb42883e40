"""The first rows of each partition among the current rows of a query that updates, emitted when they change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.expressions.hashing import Hashes, hashed
from headgate.expressions.keys import flat_types, flatten, one_chunk
from headgate.graph.operators import CurrentTop
from headgate.graph.types import BOOLEAN, INT
from headgate.operators.batch import Arrival, Batch
from headgate.operators.columns import record
from headgate.operators.contract import Snapshot
from headgate.operators.current_rows import flags, last_of_each
from headgate.operators.division import StateKeys, StateRows, run_parts, run_tables
from headgate.operators.evaluate import evaluate, select
from headgate.operators.matching import Matcher
from headgate.operators.ranking import ranked
from headgate.operators.registry import implements
from headgate.operators.runs import Run, Runs
from headgate.operators.settings import Settings

Ints = npt.NDArray[np.int64]


@implements(CurrentTop)
class LiveCurrentTop:
    """Keeps every current row, because a deletion makes a later row one of the first.

    At a watermark only the partitions of rows that changed are ranked again: they are found by a hash that is stored
    beside each row. The rank that a row was last emitted with (0: it is not shown) tells what has changed. Of rows that
    are equal in the order, the one with the lower identity comes first: results do not depend on the order of changes.
    """

    def __init__(self, node: CurrentTop, settings: Settings) -> None:
        self._node = node
        self._names = node.schema.names
        self._width = len(node.input.schema)
        identity = flat_types([e.type for e in node.identity])
        partition = flat_types([e.type for e in node.partition])
        first = self._width + len(identity)
        self._identity = list(range(self._width, first))
        self._partition = list(range(first, first + len(partition)))
        self._values = list(range(first + len(partition), first + len(partition) + len(node.order)))
        self._keys = [*self._identity, *self._partition, *self._values]
        # Behind these: `deleted` (of a change), or the rank last shown and the hash of the partition (of a row).
        self._stored = self._width + len(self._keys)
        self._matcher = Matcher(identity, self._identity, nulls_equal=True)
        self._runs = Runs(flagged_are_gone=True)
        self._pending: list[pa.Table] = []
        self._seen = 0
        self._newest = 0.0

    def process(self, port: int, batch: Batch) -> list[Batch]:
        batch = batch.materialized()
        if not batch.rows.num_rows:
            return []
        self._newest = max(self._newest, batch.arrival.mean)
        node = self._node
        keys = [*flatten([evaluate(e, batch) for e in node.identity])]
        keys += flatten([evaluate(e, batch) for e in node.partition])
        keys += [evaluate(term.expr, batch) for term in node.order]
        columns = [*batch.rows.columns[: self._width], *keys, evaluate(node.deleted, batch)]
        self._pending.append(pa.Table.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))]))
        self._seen += batch.rows.num_rows
        return []

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        if not self._pending:
            return [], watermark
        changes = last_of_each(pa.concat_tables(self._pending).combine_chunks(), self._identity)
        self._pending = []
        made = self._changed(changes)
        return ([Batch(made, Arrival.at(self._newest, made.num_rows))] if made.num_rows else []), watermark

    def _changed(self, changes: pa.Table) -> pa.RecordBatch:
        """Replaces rows; returns the rows that are no longer among the first, and then those that are and changed."""
        rows, partitions = self._replaced(changes)
        gone = flags(changes.column(self._stored))
        was = _ranks(rows, self._stored)
        left = gone & (was > 0)
        pieces = [self._output(rows.filter(pa.array(left)), was[left], deleted=True)]
        new = rows.filter(pa.array(~gone))
        partitions.append(_hashes(new, self._stored + 1))
        near, rank = self._ranked(new, np.unique(np.concatenate(partitions)))
        changed = np.arange(near.num_rows) >= near.num_rows - new.num_rows
        was = _ranks(near, self._stored)
        now = self._shown(near, rank)
        self._store(near.set_column(self._stored, "shown", pa.array(now.astype(np.int32))))
        left = (now == 0) & (was > 0)
        pieces.append(self._output(near.filter(pa.array(left)), was[left], deleted=True))
        put = (now > 0) & (changed | (now != was))
        pieces.append(self._output(near.filter(pa.array(put)), now[put], deleted=False))
        found = pa.Table.from_batches(pieces).combine_chunks().to_batches()
        return found[0] if found else pieces[0]

    def current(self) -> list[Batch]:
        """The rows that are among the first now, as they have been emitted."""
        found: list[Batch] = []
        for run in self._runs:
            shown = _ranks(run.table, self._stored)
            rows = pa.array((shown > 0) & ~run.flags)
            made = self._output(run.table.filter(rows).combine_chunks(), shown[(shown > 0) & ~run.flags], deleted=False)
            found.append(Batch(made, Arrival.at(self._newest, made.num_rows)))
        return found

    def _replaced(self, changes: pa.Table) -> tuple[pa.Table, list[Hashes]]:
        """Removes the rows that changes replace. Returns the changes as rows, each with the rank at which the row that
        it replaces was shown, and the partitions of the removed rows."""
        size = changes.num_rows
        was = np.zeros(size, np.int32)
        partitions: list[Hashes] = []
        keys = [one_chunk(changes.column(place)) for place in self._identity]
        hashes = hashed(keys, size)
        for run in self._runs:
            for at, rows in self._matcher.pairs(run, keys, hashes):
                alive = ~run.flags[rows]
                at, rows = at[alive], rows[alive]
                before = run.table.select([self._stored, self._stored + 1]).take(pa.array(rows))
                was[at] = _ranks(before, 0)
                partitions.append(_hashes(before, 1))
                run.flag(rows)
        partition = hashed([one_chunk(changes.column(place)) for place in self._partition], size)
        rows = changes.select(list(range(self._stored))).append_column("shown", pa.array(was))
        return rows.append_column("partition", pa.array(partition)), partitions

    def _ranked(self, new: pa.Table, partitions: Hashes) -> tuple[pa.Table, Ints]:
        """Ranks the rows of some partitions, new ones among them. Returns those that may be shown now or were before,
        and all new rows behind them, with their ranks. The returned rows are removed; the caller stores them again."""
        found: list[tuple[Run, Ints]] = []
        for run in self._runs:
            rows = np.flatnonzero(np.isin(_hashes(run.table, self._stored + 1), partitions) & ~run.flags)
            if len(rows):
                found.append((run, rows))
        needed = [*self._keys, self._stored]
        pieces = [run.table.select(needed).take(pa.array(rows)) for run, rows in found]
        keys = pa.concat_tables([*pieces, new.select(needed)]).combine_chunks()
        *columns, shown = [one_chunk(column) for column in keys.columns]
        first, second = len(self._identity), len(self._identity) + len(self._partition)
        node = self._node
        ties = columns[:first] if node.ranking == "row_number" else ()
        rank = ranked(columns[first:second], columns[second:], node.order, node.ranking, keys.num_rows, ties)
        was = shown.to_numpy()
        among = np.where(rank <= node.count, rank, 0)
        # Without a condition only rows with another rank are of interest; a condition may depend on the rank.
        near = among != was if node.having is None else (among > 0) | (was > 0)
        tables: list[pa.Table] = []
        start = 0
        for run, rows in found:
            stop = start + len(rows)
            rows = rows[near[start:stop]]
            start = stop
            tables.append(run.table.take(pa.array(rows)))
            run.flag(rows)
        near[len(near) - new.num_rows :] = True
        return pa.concat_tables([*tables, new]).combine_chunks(), rank[near]

    def _shown(self, rows: pa.Table, rank: Ints) -> Ints:
        """The rank of the rows that are shown, 0 for others."""
        shown = np.where(rank <= self._node.count, rank, 0)
        if self._node.having is None or not shown.any():
            return shown
        among = np.flatnonzero(shown)
        made = self._output(rows.take(pa.array(among)), shown[among], deleted=False)
        made = made.append_column("place", pa.array(among))
        passed = select(Batch(made, Arrival.at(0.0, len(among))), (self._node.having,)).materialized().rows
        kept = np.zeros(len(shown), bool)
        kept[passed.column(passed.num_columns - 1).to_numpy()] = True
        return np.where(kept, shown, 0)

    def _output(self, rows: pa.Table, rank: Ints, deleted: bool) -> pa.RecordBatch:
        columns = [one_chunk(column) for column in rows.columns[: self._width]]
        count = rows.num_rows
        own = [pa.array(rank.astype(np.int32), INT), pa.array(np.full(count, deleted), BOOLEAN)]
        return record([*columns, *own], self._names, count)

    def _store(self, rows: pa.Table) -> None:
        count = rows.num_rows
        hashes = hashed([one_chunk(rows.column(place)) for place in self._identity], count)
        self._runs.push(rows.combine_chunks(), hashes, np.zeros(count, np.int64))

    def snapshot(self) -> Snapshot:
        parts, meta = self._runs.parts("rows")
        if self._pending:
            parts[f"pending-{self._seen}"] = pa.concat_tables(self._pending).combine_chunks()
        return Snapshot(parts, {**meta, "seen": self._seen, "newest": self._newest})

    def restore(self, snapshot: Snapshot) -> None:
        self._runs.restore("rows", snapshot.parts, snapshot.meta)
        self._seen, self._newest = snapshot.meta["seen"], snapshot.meta["newest"]
        waiting = snapshot.parts.get(f"pending-{self._seen}")
        self._pending = [] if waiting is None else [waiting]

    @property
    def state_keys(self) -> dict[str, StateKeys]:
        dividing = {key for (key,) in self._node.partition_keys or ()}
        places: list[int] = []
        types: list[pa.DataType] = []
        place = self._width + len(self._identity)
        for key in self._node.partition:
            after = place + len(flat_types([key.type]))
            if key in dividing:
                places += range(place, after)
                types.append(key.type)
            place = after
        keys = StateKeys(tuple(places), tuple(types))
        return {"rows": keys, "pending": keys}

    def opened(self, snapshot: Snapshot) -> StateRows:
        meta = snapshot.meta
        waiting = snapshot.parts.get(f"pending-{meta['seen']}")
        tables = {
            "rows": run_tables("rows", snapshot.parts, meta, gone=True),
            "pending": [] if waiting is None else [waiting],
        }
        highest = {"seen": meta["seen"], "newest": meta["newest"]}
        return StateRows(tables, highest=highest, lowest={"bound": meta["bound"]})

    def closed(self, rows: StateRows) -> Snapshot:
        parts, meta = run_parts("rows", rows.tables["rows"], rows.lowest["bound"])
        if rows.tables["pending"]:
            parts[f"pending-{rows.highest['seen']}"] = pa.concat_tables(rows.tables["pending"])
        return Snapshot(parts, {**meta, **rows.highest})

    @property
    def state_rows(self) -> int:
        return self._runs.rows + sum(int(table.num_rows) for table in self._pending)

    @property
    def state_bytes(self) -> int:
        return self._runs.nbytes + sum(int(table.nbytes) for table in self._pending)

    @property
    def late_rows(self) -> int:
        return 0


def _ranks(rows: pa.Table, place: int) -> Ints:
    """The ranks that rows were shown with."""
    return np.asarray(one_chunk(rows.column(place)).to_numpy(), np.int64)


def _hashes(rows: pa.Table, place: int) -> Hashes:
    """The hashes of the partitions of rows."""
    return np.asarray(one_chunk(rows.column(place)).to_numpy(), np.uint64)

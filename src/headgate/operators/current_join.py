"""Joins each row of a stream with the rows of a query that updates, as they are when its event time is complete."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.expressions.hashing import Hashes, hashed
from headgate.expressions.keys import flat_types, flatten, one_chunk
from headgate.graph.operators import CurrentJoin
from headgate.graph.operators.operator import LEFT, RIGHT
from headgate.operators.batch import FOREVER, NEVER, Arrival, Batch
from headgate.operators.columns import record
from headgate.operators.contract import Snapshot
from headgate.operators.current_rows import flags, last_of_each
from headgate.operators.division import StateKeys, StateRows, run_parts, run_tables
from headgate.operators.evaluate import evaluate
from headgate.operators.matching import Matcher, without_nulls
from headgate.operators.partners import Flags, Pairs, Partners
from headgate.operators.registry import implements
from headgate.operators.runs import Runs
from headgate.operators.settings import Settings
from headgate.operators.windows import late_before, times_or_end

Ints = npt.NDArray[np.int64]


@implements(CurrentJoin)
class LiveCurrentJoin:
    """Rows of the left side and changes of the right side wait until the watermarks of both have passed their times.

    The time of a change is the right side's watermark when it came: rows whose times that watermark had not passed see
    it. The rows and changes that have become complete are then processed in the order of time: each change is applied
    before the rows that see it, so that only the current rows are kept, indexed by the keys of the join. Late rows of
    the left side are dropped and counted; a row without a time waits for the end of the streams.

    Of the waiting changes of one identity and one time only the last is kept: the others are dropped when there are
    twice as many as after the last time, and `spare` more.
    """

    spare = 16384

    def __init__(self, node: CurrentJoin, settings: Settings) -> None:
        self._node = node
        self._names = node.schema.names
        self._partners = Partners(node.how, node.residual, len(node.left.schema), node.right.schema.types)
        types = [key.type for key in node.left_keys]
        keys, identity = flat_types(types), flat_types([e.type for e in node.identity])
        width = len(node.left.schema)
        self._left_keys = list(range(width, width + len(keys)))
        self._time = width + len(keys)
        # Of a row of the right side: its columns, its keys, its identity. A change has `deleted` and its time behind.
        width = len(node.right.schema)
        self._right_keys = list(range(width, width + len(keys)))
        self._identity = list(range(width + len(keys), width + len(keys) + len(identity)))
        self._deleted = width + len(keys) + len(identity)
        # The keys depend on the identity, so rows with equal identities have equal hashes of the keys.
        self._same = Matcher([*keys, *identity], [*self._right_keys, *self._identity], nulls_equal=True)
        self._match = Matcher(keys, self._right_keys, nulls_equal=any(map(pa.types.is_struct, types)))
        self._runs = Runs(flagged_are_gone=True)
        self._rows: list[tuple[int, pa.Table]] = []
        self._changes: list[tuple[int, pa.Table]] = []
        self._next = 0
        self._kept = 0
        self._watermarks = [NEVER, NEVER]
        self._late = 0
        self._newest = 0.0

    def process(self, port: int, batch: Batch) -> list[Batch]:
        batch = batch.materialized()
        if batch.rows.num_rows:
            self._newest = max(self._newest, batch.arrival.mean)
            if port == LEFT:
                self._arrived(batch)
            else:
                self._changed(batch)
        return []

    def _arrived(self, batch: Batch) -> None:
        node = self._node
        times = times_or_end(evaluate(node.time, batch))
        keys = [evaluate(key, batch) for key in node.left_keys]
        able = without_nulls(keys, len(times))
        rows = batch.rows.columns[: len(node.left.schema)]
        table = _table([*rows, *flatten(keys), pa.array(times), pa.array(able)])
        late = times < late_before(node.time, batch.watermark)
        if late.any():
            self._late += int(late.sum())
            table = table.filter(pa.array(~late)).combine_chunks()
        self._add(self._rows, table)

    def _changed(self, batch: Batch) -> None:
        node = self._node
        rows = batch.rows.columns[: len(node.right.schema)]
        keys = flatten([evaluate(key, batch) for key in node.right_keys])
        identity = flatten([evaluate(e, batch) for e in node.identity])
        since = pa.array(np.full(batch.rows.num_rows, self._watermarks[RIGHT]))
        self._add(self._changes, _table([*rows, *keys, *identity, evaluate(node.deleted, batch), since]))
        if sum(table.num_rows for _, table in self._changes) > 2 * self._kept + self.spare:
            waiting = pa.concat_tables([table for _, table in self._changes]).combine_chunks()
            waiting = last_of_each(waiting, [*self._identity, self._deleted + 1])
            self._kept = waiting.num_rows
            self._changes = []
            self._add(self._changes, waiting)

    def _add(self, tables: list[tuple[int, pa.Table]], table: pa.Table) -> None:
        if table.num_rows:
            self._next += 1
            tables.append((self._next, table))

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        self._watermarks[port] = max(self._watermarks[port], watermark)
        complete = min(self._watermarks)
        out: list[Batch] = []
        if complete > NEVER:
            rows = self._taken(self._complete(complete))
            for since, changes in self._due(complete):
                seen = self._complete(since)
                out += self._joined(rows, seen)
                rows = _after(rows, self._time, seen)
                self._apply(changes)
            out += self._joined(rows, self._complete(complete))
        return out, complete

    def _complete(self, watermark: int) -> int:
        """Rows with times before this are complete at a watermark."""
        return FOREVER + 1 if watermark >= FOREVER else late_before(self._node.time, watermark)

    def _taken(self, bound: int) -> pa.Table | None:
        """The waiting rows with times before a bound; the others go on waiting."""
        found: list[pa.Table] = []
        kept: list[tuple[int, pa.Table]] = []
        for number, table in self._rows:
            due = _times(table, self._time) < bound
            if not due.any():
                kept.append((number, table))
                continue
            found.append(table.filter(pa.array(due)))
            self._add(kept, table.filter(pa.array(~due)).combine_chunks())
        self._rows = kept
        return pa.concat_tables(found).combine_chunks() if found else None

    def _due(self, complete: int) -> list[tuple[int, pa.Table]]:
        """The changes that every row sees which is not complete yet, by time."""
        due: dict[int, list[pa.Table]] = {}
        kept: list[tuple[int, pa.Table]] = []
        for number, table in self._changes:
            times = _times(table, self._deleted + 1)
            if self._complete(int(times.min())) > complete:
                kept.append((number, table))
                continue
            for since in np.unique(times).tolist():
                part = table.filter(pa.array(times == since)).combine_chunks()
                if self._complete(since) <= complete:
                    due.setdefault(since, []).append(part)
                elif part.num_rows == table.num_rows:
                    kept.append((number, table))
                else:
                    self._add(kept, part)
        self._changes = kept
        return [(since, pa.concat_tables(due[since]).combine_chunks()) for since in sorted(due)]

    def _apply(self, changes: pa.Table) -> None:
        """Replaces and deletes rows of the right side."""
        changes = last_of_each(changes, self._identity)
        keys = [one_chunk(changes.column(place)) for place in (*self._right_keys, *self._identity)]
        hashes = hashed(keys[: len(self._right_keys)], changes.num_rows)
        for run in self._runs:
            for _, rows in self._same.pairs(run, keys, hashes):
                run.flag(rows[~run.flags[rows]])
        there = ~flags(changes.column(self._deleted))
        rows = changes.select(list(range(self._deleted))).filter(pa.array(there)).combine_chunks()
        self._runs.push(rows, hashes[there], np.zeros(rows.num_rows, np.int64))

    def _joined(self, rows: pa.Table | None, bound: int) -> list[Batch]:
        """The results of the rows with times before a bound."""
        if rows is None:
            return []
        due = _times(rows, self._time) < bound
        if not due.any():
            return []
        rows = rows if due.all() else rows.filter(pa.array(due)).combine_chunks()
        count = rows.num_rows
        keys = [one_chunk(rows.column(place)) for place in self._left_keys]
        able = flags(rows.column(self._time + 1))
        left = record([one_chunk(c) for c in rows.columns], rows.column_names, count)
        found = self._partners.joined(left, self._pairs(keys, hashed(keys, count), able))
        return [Batch(record(columns, self._names, n), Arrival.at(self._newest, n)) for columns, n in found]

    def _pairs(self, keys: list[pa.Array], hashes: Hashes, able: Flags) -> Pairs:
        """The current rows with equal keys."""
        for run in self._runs:
            for probes, found in self._match.pairs(run, keys, hashes):
                inside = able[probes] & ~run.flags[found]
                yield probes[inside], run.table, found[inside]

    def snapshot(self) -> Snapshot:
        parts, meta = self._runs.parts("current")
        waiting = {"rows": self._rows, "changes": self._changes}
        for name, tables in waiting.items():
            parts |= {f"{name}-{number}": table for number, table in tables}
        numbers = {name: [number for number, _ in tables] for name, tables in waiting.items()}
        own = {"next-table": self._next, "marks": list(self._watermarks), "late": self._late, "newest": self._newest}
        return Snapshot(parts, {**meta, **numbers, **own})

    def restore(self, snapshot: Snapshot) -> None:
        parts, meta = snapshot.parts, snapshot.meta
        self._runs.restore("current", parts, meta)
        self._rows = [(number, parts[f"rows-{number}"]) for number in meta["rows"]]
        self._changes = [(number, parts[f"changes-{number}"]) for number in meta["changes"]]
        self._next, self._late, self._newest = meta["next-table"], meta["late"], meta["newest"]
        self._watermarks = list(meta["marks"])

    @property
    def state_keys(self) -> dict[str, StateKeys]:
        left = StateKeys(tuple(self._left_keys), tuple(key.type for key in self._node.left_keys))
        right = StateKeys(tuple(self._right_keys), tuple(key.type for key in self._node.right_keys))
        return {"current": right, "rows": left, "changes": right}

    def opened(self, snapshot: Snapshot) -> StateRows:
        parts, meta = snapshot.parts, snapshot.meta
        tables = {name: [parts[f"{name}-{number}"] for number in meta[name]] for name in ("rows", "changes")}
        return StateRows(
            {"current": run_tables("current", parts, meta, gone=True), **tables},
            {"marks": meta["marks"]},
            {"newest": meta["newest"]},
            {"bound": meta["bound"]},
            {"late": meta["late"]},
        )

    def closed(self, rows: StateRows) -> Snapshot:
        parts, meta = run_parts("current", rows.tables["current"], rows.lowest["bound"])
        number = 0
        for name in ("rows", "changes"):
            kept = [table for table in rows.tables[name] if table.num_rows]
            meta[name] = list(range(number + 1, number + 1 + len(kept)))
            parts |= {f"{name}-{n}": table for n, table in zip(meta[name], kept, strict=True)}
            number += len(kept)
        return Snapshot(parts, {**meta, **rows.progress, **rows.highest, **rows.counts, "next-table": number})

    @property
    def state_rows(self) -> int:
        return self._runs.rows + sum(int(table.num_rows) for _, table in (*self._rows, *self._changes))

    @property
    def state_bytes(self) -> int:
        return self._runs.nbytes + sum(int(table.nbytes) for _, table in (*self._rows, *self._changes))

    @property
    def late_rows(self) -> int:
        return self._late


def _table(columns: list[pa.Array]) -> pa.Table:
    return pa.Table.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])


def _times(table: pa.Table, place: int) -> Ints:
    return np.asarray(one_chunk(table.column(place)).to_numpy(), np.int64)


def _after(rows: pa.Table | None, place: int, bound: int) -> pa.Table | None:
    """The rows with times not before a bound."""
    if rows is None:
        return None
    rows = rows.filter(pa.array(_times(rows, place) >= bound)).combine_chunks()
    return rows if rows.num_rows else None

"""The first rows of each partition by an order, emitted when the partition is complete."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.expressions.keys import flat_types, flatten, one_chunk
from headgate.graph.operators import Candidates, Top
from headgate.operators.batch import FOREVER, Arrival, Batch
from headgate.operators.columns import record
from headgate.operators.contract import Snapshot
from headgate.operators.division import StateKeys, StateRows
from headgate.operators.evaluate import evaluate
from headgate.operators.ranking import ranked
from headgate.operators.registry import implements
from headgate.operators.settings import Settings
from headgate.operators.windows import late_before, times_or_end

Ints = npt.NDArray[np.int64]

_SPARE = 16384
"""The state is pruned when it has twice the rows that the last pruning left, plus this many."""


@implements(Candidates)
@implements(Top)
class LiveTop:
    """Keeps the rows that may still be among the first; of rows that are equal in the order, the earlier comes first.

    Rows behind the watermark are dropped and counted. A row without a time waits for the end of the stream.
    """

    def __init__(self, node: Top, settings: Settings) -> None:
        self._partition = node.partition
        self._order = node.order
        self._count = node.count
        self._ranking = node.ranking
        self._time = node.time
        self._names = node.schema.names
        self._width = len(node.input.schema)
        self._tables: list[tuple[int, pa.Table]] = []
        self._next = 0
        self._kept = 0
        self._late = 0
        self._newest = 0.0
        self._earliest = FOREVER + 1

    def process(self, port: int, batch: Batch) -> list[Batch]:
        batch = batch.materialized()
        if not batch.rows.num_rows:
            return []
        self._newest = max(self._newest, batch.arrival.mean)
        times = times_or_end(evaluate(self._time, batch))
        partition = flatten([evaluate(e, batch) for e in self._partition])
        order = [evaluate(term.expr, batch) for term in self._order]
        columns = [*batch.rows.columns[: self._width], pa.array(times), *partition, *order]
        table = pa.Table.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
        late = times < late_before(self._time, batch.watermark)
        if late.any():
            self._late += int(late.sum())
            table = table.filter(pa.array(~late)).combine_chunks()
            times = times[~late]
        if not len(times):
            return []
        self._earliest = min(self._earliest, int(times.min()))
        self._push(table)
        if self._rows > 2 * self._kept + _SPARE:
            self._prune()
        return []

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        # A row without a time has the time FOREVER: it is emitted at the end of the stream.
        bound = watermark if watermark < FOREVER else FOREVER + 1
        if self._earliest >= bound:
            return [], watermark
        table, ranks = self._prune()
        times = one_chunk(table.column(self._width)).to_numpy()
        complete = times < bound
        self._replace(table.filter(pa.array(~complete)))
        if not complete.any():
            return [], watermark
        rows = table.select(list(range(self._width))).filter(pa.array(complete))
        columns = [one_chunk(c) for c in rows.columns]
        if len(self._names) > self._width:
            columns.append(pa.array(ranks[complete].astype(np.int32)))
        made = record(columns, self._names, rows.num_rows)
        return [Batch(made, Arrival.at(self._newest, rows.num_rows))], watermark

    @property
    def _rows(self) -> int:
        return sum(table.num_rows for _, table in self._tables)

    def _push(self, table: pa.Table) -> None:
        self._next += 1
        self._tables.append((self._next, table))

    def _replace(self, table: pa.Table) -> None:
        self._tables = []
        self._kept = table.num_rows
        self._earliest = FOREVER + 1
        if table.num_rows:
            table = table.combine_chunks()
            self._earliest = int(one_chunk(table.column(self._width)).to_numpy().min())
            self._push(table)

    def _prune(self) -> tuple[pa.Table, Ints]:
        """Drops rows that can no longer be among the first; returns the others with their ranks."""
        table = pa.concat_tables([t for _, t in self._tables])
        ranks = self._ranks(table)
        first = ranks <= self._count
        if not first.all():
            table = table.filter(pa.array(first))
            ranks = ranks[first]
        self._replace(table)
        return table, ranks

    def _ranks(self, table: pa.Table) -> Ints:
        """The rank of each row in its partition."""
        columns = [one_chunk(c) for c in table.columns[self._width + 1 :]]
        cut = len(columns) - len(self._order)
        return ranked(columns[:cut], columns[cut:], self._order, self._ranking, table.num_rows)

    def snapshot(self) -> Snapshot:
        parts = {f"rows-{number}": table for number, table in self._tables}
        meta = {"next": self._next, "kept": self._kept, "late": self._late, "newest": self._newest}
        return Snapshot(parts, {**meta, "tables": [n for n, _ in self._tables], "earliest": self._earliest})

    def restore(self, snapshot: Snapshot) -> None:
        meta = snapshot.meta
        self._next, self._kept, self._late = meta["next"], meta["kept"], meta["late"]
        self._newest, self._earliest = meta["newest"], meta["earliest"]
        self._tables = [(number, snapshot.parts[f"rows-{number}"]) for number in meta["tables"]]

    @property
    def state_keys(self) -> dict[str, StateKeys]:
        types = tuple(key.type for key in self._partition)
        first = self._width + 1
        return {"rows": StateKeys(tuple(range(first, first + len(flat_types(types)))), types)}

    def opened(self, snapshot: Snapshot) -> StateRows:
        meta = snapshot.meta
        tables = [snapshot.parts[f"rows-{number}"] for number in meta["tables"]]
        return StateRows({"rows": tables}, highest={"newest": meta["newest"]}, counts={"late": meta["late"]})

    def closed(self, rows: StateRows) -> Snapshot:
        tables = [table for table in rows.tables["rows"] if table.num_rows]
        parts = {f"rows-{number}": table for number, table in enumerate(tables, 1)}
        times = [int(one_chunk(table.column(self._width)).to_numpy().min()) for table in tables]
        meta = {
            "next": len(tables),
            "kept": sum(table.num_rows for table in tables),
            "tables": list(range(1, len(tables) + 1)),
            "earliest": min(times, default=FOREVER + 1),
        }
        return Snapshot(parts, {**meta, **rows.highest, **rows.counts})

    @property
    def state_rows(self) -> int:
        return self._rows

    @property
    def state_bytes(self) -> int:
        return sum(int(table.nbytes) for _, table in self._tables)

    @property
    def late_rows(self) -> int:
        return self._late

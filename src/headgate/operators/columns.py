"""Parts of a batch: only the needed columns, only the selected rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from headgate.graph.expressions import Column, Expr, Foreign
from headgate.graph.types import Schema
from headgate.operators.batch import Arrival, Batch


class NarrowInput:
    """Expressions over a wide input, rewritten to run over only the columns that they read.

    A pending selection is materialized on those columns alone.
    """

    def __init__(self, exprs: Sequence[Expr], also: Iterable[int] = ()) -> None:
        parts = [part for expr in exprs for part in expr.walk()]
        read = {part.index for part in parts if isinstance(part, Column)} | set(also)
        self._positions = sorted(read)
        self._foreign = sorted({part.key for part in parts if isinstance(part, Foreign)})
        self._moved = {old: new for new, old in enumerate(self._positions)}
        self.exprs = tuple(expr.moved(self._moved) for expr in exprs)

    def position(self, column: int) -> int:
        """The position of an input column in the batch that `materialized` returns."""
        return self._moved[column]

    def materialized(self, batch: Batch) -> Batch:
        """The selected rows with the needed columns."""
        if batch.mask is None:
            return Batch(self._narrow(batch.rows), batch.arrival, batch.watermark)
        return Batch(self._narrow(batch.rows), batch.arrival, batch.watermark, batch.mask).materialized()

    def _narrow(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._foreign:
            return rows.select(self._positions)
        extra = [rows.schema.get_field_index(key) for key in self._foreign]
        return rows.select([*self._positions, *extra])


def renamed(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The first columns of a batch under the names of a schema; further columns are dropped."""
    arrays = [rows.column(index) for index in range(len(schema))]
    return record(arrays, schema.names, rows.num_rows)


def record(arrays: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    """A record batch of arrays; without columns it still has its number of rows."""
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), names=list(names))
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def part_of(arrival: Arrival, rows: int) -> Arrival:
    """The arrival of `rows` of the rows of a batch: with their count, and the mean of the batch."""
    share = rows / arrival.count if arrival.count else 0.0
    return Arrival(rows, arrival.total * share, arrival.first)

"""Computes new columns from each row."""

from __future__ import annotations

import pyarrow as pa

from headgate.graph.expressions import Column
from headgate.graph.operators import Project
from headgate.operators.batch import Batch
from headgate.operators.columns import NarrowInput, record
from headgate.operators.evaluate import evaluate
from headgate.operators.registry import implements
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless
from headgate.operators.weights import weights_of, with_weights


@implements(Project)
class LiveProject(Stateless):
    """A projection. Plain columns are passed on under the pending selection, without a copy.

    Before anything is computed, a pending selection is materialized, on only the columns that are read: an expression
    never sees a row that was filtered out.
    """

    def __init__(self, node: Project, settings: Settings) -> None:
        self._exprs = node.exprs
        self._names = node.schema.names
        self._plain = all(isinstance(e, Column) for e in node.exprs)
        self._input = NarrowInput(node.exprs)

    def process(self, port: int, batch: Batch) -> list[Batch]:
        if batch.mask is None or self._plain:
            arrays = [evaluate(e, batch) for e in self._exprs]
            rows = _weighted_as(batch.rows, record(arrays, self._names, batch.rows.num_rows), None)
            return [Batch(rows, batch.arrival, batch.watermark, batch.mask)]
        taken = self._input.materialized(batch)
        arrays = [evaluate(e, taken) for e in self._input.exprs]
        rows = _weighted_as(batch.rows, record(arrays, self._names, taken.rows.num_rows), batch.mask)
        return [Batch(rows, taken.arrival, taken.watermark)]


def _weighted_as(rows: pa.RecordBatch, made: pa.RecordBatch, mask: pa.BooleanArray | None) -> pa.RecordBatch:
    """The computed columns, with the weights of the rows that they were computed from, if these have any."""
    weights = weights_of(rows)
    if weights is None:
        return made
    return with_weights(made, weights if mask is None else weights.filter(mask))

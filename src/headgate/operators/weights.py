"""Weights of rows: how many rows a row stands for, where others were shed and counts and sums are to be scaled.

The weight is a whole number in a hidden last column of a batch; without the column every row counts once. Selections
and projections carry it, so do queues and snapshots, and an aggregate takes a row as often as its weight says.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.operators.batch import Batch

WEIGHT = "#weight"

_FIELD = pa.field(WEIGHT, pa.int64())


def with_weights(rows: pa.RecordBatch, weights: pa.Array) -> pa.RecordBatch:
    """Rows with their weights."""
    return pa.RecordBatch.from_arrays([*rows.columns, weights], schema=rows.schema.append(_FIELD))


def weights_of(rows: pa.RecordBatch) -> pa.Array | None:
    """The weights of rows; None if every row counts once."""
    place = rows.schema.get_field_index(WEIGHT)
    return None if place < 0 else rows.column(place)


def even_weights(total: int, rows: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Weights that add up to `total` and differ by at most 1; which rows have the larger ones is random."""
    weights = np.full(rows, total // rows, np.int64)
    weights[random.permutation(rows)[: total % rows]] += 1
    return weights


def expanded(batch: Batch) -> Batch:
    """The batch with every selected row as often as its weight says; itself if every row counts once."""
    if batch.rows.schema.get_field_index(WEIGHT) < 0:
        return batch
    taken = batch.materialized()
    rows = taken.rows
    weights = weights_of(rows)
    assert weights is not None
    order = np.repeat(np.arange(rows.num_rows), weights.to_numpy())
    kept = rows.select([name for name in range(rows.num_columns) if rows.schema.names[name] != WEIGHT])
    return Batch(kept.take(pa.array(order)), taken.arrival, taken.watermark)

"""What goes with rows through an exchange: their keys, and the watermark that they had when they entered."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.graph.operators import Stamp, Unstamp
from headgate.operators.batch import Batch
from headgate.operators.columns import part_of, record, renamed
from headgate.operators.evaluate import evaluate
from headgate.operators.registry import implements
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless


@implements(Stamp)
class LiveStamp(Stateless):
    """Appends the keys and the watermark of each row."""

    def __init__(self, node: Stamp, settings: Settings) -> None:
        self._keys = node.keys
        self._names = node.schema.names
        self._width = len(node.input.schema)

    def process(self, port: int, batch: Batch) -> list[Batch]:
        batch = batch.materialized()
        rows = batch.rows.num_rows
        if not rows:
            return []
        keys = [evaluate(key, batch) for key in self._keys]
        mark = pa.repeat(pa.scalar(batch.watermark, pa.int64()), rows)
        made = record([*batch.rows.columns[: self._width], *keys, mark], self._names, rows)
        return [Batch(made, batch.arrival, batch.watermark)]


@implements(Unstamp)
class LiveUnstamp(Stateless):
    """Gives each row the watermark that it was sent with. Rows stay in order: updates of a row follow each other."""

    def __init__(self, node: Unstamp, settings: Settings) -> None:
        self._schema = node.schema

    def process(self, port: int, batch: Batch) -> list[Batch]:
        batch = batch.materialized()
        marks = batch.rows.column(batch.rows.num_columns - 1).to_numpy()
        starts = [0, *(np.flatnonzero(np.diff(marks)) + 1).tolist()] if len(marks) else []
        found = []
        for start, end in zip(starts, [*starts[1:], len(marks)], strict=True):
            rows = renamed(batch.rows.slice(start, end - start), self._schema)
            found.append(Batch(rows, part_of(batch.arrival, end - start), int(marks[start])))
        return found

"""Repeats each row once per hopping window that it is in, for operators that need the window as a column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.graph.operators import Expand
from headgate.operators.batch import Arrival, Batch
from headgate.operators.columns import record
from headgate.operators.evaluate import evaluate
from headgate.operators.registry import implements
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless
from headgate.operators.windows import Panes, microseconds, window_column


@implements(Expand)
class LiveExpand(Stateless):
    """Appends the window as a struct. A row without an event time is in no window, as in Spark."""

    def __init__(self, node: Expand, settings: Settings) -> None:
        if node.window.on is None or node.window.kind != "time":
            raise ValueError("only windows of time can be expanded; use windows of rows or sessions in an aggregate")
        self._on = node.window.on
        self._panes = Panes(node.window)
        self._names = node.schema.names
        self._type = node.schema[len(node.schema) - 1].type

    def process(self, port: int, batch: Batch) -> list[Batch]:
        batch = batch.materialized()
        times, valid = microseconds(evaluate(self._on, batch))
        present = np.arange(len(times)) if valid is None else np.flatnonzero(valid.to_numpy(zero_copy_only=False))
        positions, starts = self._panes.repeated(times[present])
        if not len(positions):
            return []
        positions = present[positions]
        kept = len(self._names) - 1
        rows = batch.rows.select(list(range(kept))).take(pa.array(positions))
        window = window_column(starts, starts + self._panes.length, self._type)
        count = len(positions)
        arrival = Arrival(count, batch.arrival.mean * count, batch.arrival.first)
        return [Batch(record([*rows.columns, window], self._names, count), arrival, batch.watermark)]

"""Aggregates in two halves: states of groups before an exchange between replicas, merged after it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.expressions.keys import flatten, rebuild
from headgate.graph.operators import Merge, Partial
from headgate.graph.operators.exchange import FIRST_KEY
from headgate.operators.aggregate.changes import LiveChanges
from headgate.operators.aggregate.windowed import LiveWindowed
from headgate.operators.batch import Batch
from headgate.operators.columns import part_of, record
from headgate.operators.registry import implements
from headgate.operators.settings import Settings


@implements(Partial, when=lambda node: node.aggregate.window is not None)
class LivePartialWindowed(LiveWindowed):
    """The states of each batch by pane and group. Its only state is the watermark, which makes rows late."""

    counts_closed = True

    def __init__(self, node: Partial, settings: Settings) -> None:
        super().__init__(node.aggregate, settings)
        self._columns = node.schema.names

    def process(self, port: int, batch: Batch) -> list[Batch]:
        codes, keys, inputs = self._read(batch)
        if not len(codes):
            return []
        (pane, *flat), states = self._calls.partial([pa.array(codes), *keys], inputs, len(codes))
        made = record([pane, *rebuild(flat, self._key_types), *states], self._columns, len(pane))
        return [Batch(made, part_of(batch.arrival, len(pane)))]

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        self._closed = max(self._closed, watermark)
        return [], watermark


@implements(Partial, when=lambda node: node.aggregate.window is None)
class LivePartialChanges(LiveChanges):
    """The states of each batch by group."""

    def __init__(self, node: Partial, settings: Settings) -> None:
        super().__init__(node.aggregate, settings)
        self._columns = node.schema.names

    def process(self, port: int, batch: Batch) -> list[Batch]:
        keys, inputs, rows = self._read(batch)
        if not rows:
            return []
        flat, states = self._calls.partial(keys, inputs, rows)
        count = len((flat + states)[0])
        made = record(
            [pa.array(np.zeros(count, np.int64)), *rebuild(flat, self._key_types), *states], self._columns, count
        )
        return [Batch(made, part_of(batch.arrival, count))]

    def advance(self, port: int, watermark: int) -> tuple[list[Batch], int]:
        return [], watermark


@implements(Merge, when=lambda node: node.aggregate.window is not None)
class LiveMergeWindowed(LiveWindowed):
    """Windows of merged states. No state is late here: a watermark arrives after all states before it."""

    def __init__(self, node: Merge, settings: Settings) -> None:
        super().__init__(node.aggregate, settings)

    def process(self, port: int, batch: Batch) -> list[Batch]:
        self._output.arrived(batch.arrival)
        columns = batch.materialized().rows.columns
        if len(columns[0]):
            first = FIRST_KEY + self._key_count
            self._store.add_states([columns[0], *flatten(columns[FIRST_KEY:first]), *columns[first:]])
            self._due = None
        return []


@implements(Merge, when=lambda node: node.aggregate.window is None)
class LiveMergeChanges(LiveChanges):
    """Groups of merged states that changed."""

    def __init__(self, node: Merge, settings: Settings) -> None:
        super().__init__(node.aggregate, settings)

    def process(self, port: int, batch: Batch) -> list[Batch]:
        self._output.arrived(batch.arrival)
        rows = batch.materialized().rows
        if rows.num_rows:
            first = FIRST_KEY + len(self._key_types)
            keys = flatten(rows.columns[FIRST_KEY:first])
            self._pending.append([*keys, *rows.columns[first:], pa.nulls(rows.num_rows)])
        return []

    def _grouped(
        self, keys: list[pa.Array], columns: list[pa.Array], rows: int
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        return self._calls.merge(keys, columns, rows)

"""Results in the outbox of the checkpoint as a DataFrame: its tasks read them; no row passes through the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from headgate.graph.queries import Query
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.messages import Place

IDENTITY = "_headgate_key"
"""Columns `_headgate_key0` … of an update query identify its rows."""
DELETED = "_headgate_deleted"
"""The column of an update query that marks deleted rows."""
ORDER = "_headgate_order"
"""A column that grows from row to row. Spark's own counter is not deterministic, which MERGE refuses."""
_PLACE_BITS = 40
"""A place has fewer rows than this many bits can count."""


@dataclass(frozen=True)
class OutboxRows:
    """The results of a query in one epoch, in the outbox: one place per replica."""

    query: Query
    epoch: int
    checkpoint: str
    places: tuple[Place, ...]

    @property
    def identity(self) -> list[str]:
        """The names of the columns that identify a row of an update query."""
        hidden = len(self.query.plan.schema) - self.query.visible - 1
        return [f"{IDENTITY}{number}" for number in range(hidden)] if self.query.mode == "update" else []

    @property
    def columns(self) -> list[str]:
        """The visible columns; for an update query followed by those of its identity and `DELETED`."""
        return [*self.query.schema.names, *self.identity, *([DELETED] if self.query.mode == "update" else [])]

    def frame(self, spark: Any, order: bool = False) -> Any:
        """A DataFrame of the rows, one partition per place. `order` adds the column `ORDER`."""
        read = partial(_read, self.checkpoint, self.places, self.columns, order)
        count = len(self.places)
        schema = self._schema()
        return spark.range(0, count, 1, count).mapInArrow(read, schema.add(ORDER, "long") if order else schema)

    def empty(self, spark: Any) -> Any:
        """A DataFrame with the columns of the rows and without rows."""
        return spark.createDataFrame([], self._schema())

    def _schema(self) -> Any:
        from pyspark.sql import types

        from headgate.spark.types import to_spark

        fields = zip(self.columns, self.query.plan.schema.fields, strict=False)
        return types.StructType([types.StructField(name, to_spark(field.type)) for name, field in fields])


def _read(
    checkpoint: str, places: Sequence[Place], columns: list[str], order: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of the places whose numbers it gets."""
    opened = Checkpoint(checkpoint)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            rows = opened.read(places[number]).rename_columns(columns)
            if order:
                first = number << _PLACE_BITS
                rows = rows.append_column(ORDER, pa.array(range(first, first + rows.num_rows), pa.int64()))
            yield from rows.to_batches()

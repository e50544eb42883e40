"""Stands in for Spark in tests of the protocol alone: runs the function of `mapInArrow` in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from headgate.spark import worker
from headgate.spark.packing import TAG, Packing
from headgate.spark.task import ANSWER_DDL


class Frame:
    """A micro-batch of packed rows."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = list(batches)
        self._function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] | None = None

    def coalesce(self, partitions: int) -> Frame:
        assert partitions == 1
        return self

    def mapInArrow(self, function: Any, schema: str) -> Frame:  # noqa: N802
        assert schema == ANSWER_DDL
        self._function = function
        return self

    def collect(self) -> list[tuple[str, str, bytes]]:
        assert self._function is not None
        found = []
        for batch in self._function(iter(self._batches)):
            found += [(row["kind"], row["name"], row["data"]) for row in batch.to_pylist()]
        return found


class Spark:
    """The part of a session that epochs use."""

    def range(self, count: int) -> Frame:
        return Frame([pa.record_batch({"id": list(range(count))})])


def packed(packing: Packing, stream: str, rows: pa.Table) -> pa.RecordBatch:
    """Rows laid into the slots as Spark does it; the carried columns must be plain columns."""
    columns: dict[str, Any] = {TAG: pa.array([packing.streams.index(stream)] * rows.num_rows, pa.int16())}
    for slot, text in zip(packing.slots, packing.select(stream)[1:], strict=True):
        name = text.removeprefix("CAST(").split(" AS ")[0].strip("`")
        columns[slot.name] = pa.nulls(rows.num_rows, slot.type) if name == "NULL" else rows.column(name)
    return pa.table(columns).combine_chunks().to_batches()[0]


def forget_networks() -> None:
    """Drops all networks, as killing the worker does."""
    worker._live.clear()

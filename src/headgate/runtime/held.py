"""One held copy of a batch that waits: shared by all queues of a fork, counted once, freed with its last reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headgate.operators.batch import Arrival, Batch

Roots = tuple[tuple[int, int], ...]
OUTBOX = 1 << 30
"""The class of a batch that waits for nobody but the sink: colder than any class of queries."""


class Held:
    """A batch in waiting. `batch` is None while its rows are not in memory but in a part of the store.

    `cls` is the highest class (lowest number) that reads it, `order` counts batches as they came: together they say
    how soon it will be needed. `bytes` is what it takes by itself, `size` what it keeps alive. All fields belong to
    `Memory` and change under the network's lock.
    """

    __slots__ = (
        "arrival",
        "batch",
        "bytes",
        "cls",
        "count",
        "index",
        "memo",
        "order",
        "part",
        "pins",
        "readers",
        "roots",
        "size",
        "tracked",
        "watermark",
    )

    def __init__(self, batch: Batch, readers: int, cls: int, order: int, tracked: bool) -> None:
        self.batch: Batch | None = batch
        self.arrival: Arrival = batch.arrival
        self.watermark: int = batch.watermark
        self.count: int = batch.rows.num_rows
        self.readers = readers
        self.cls = cls
        self.order = order
        self.bytes = 0
        self.size = 0
        self.memo = 0
        self.pins = 0
        self.tracked = tracked
        self.roots: Roots | None = None
        self.part: str | None = None
        self.index = 0

    @classmethod
    def absent(cls, described: Mapping[str, Any]) -> Held:
        """A batch that a manifest describes; its rows are in the store, and nobody reads it yet."""
        held = cls.__new__(cls)
        held.batch = None
        held.arrival = Arrival(*described["arrival"])
        held.watermark = described["watermark"]
        held.count = described["rows"]
        held.readers = 0
        held.cls = OUTBOX
        held.order = held.bytes = held.size = held.memo = held.pins = 0
        held.tracked = True
        held.roots = None
        held.part, held.index = described["part"], described["index"]
        return held


def roots_of(rows: pa.RecordBatch) -> Roots:
    """The allocations that a batch keeps alive, as (address, bytes).

    A slice keeps the whole of its buffers alive, and a buffer that is part of another (a column of an IPC message)
    keeps that one alive: it is the outermost that counts.
    """
    found: set[tuple[int, int]] = set()
    for column in rows.columns:
        for buffer in column.buffers():
            if buffer is None:
                continue
            outer = buffer.parent
            while outer is not None:
                buffer, outer = outer, outer.parent
            found.add((buffer.address, buffer.size))
    return tuple(found)

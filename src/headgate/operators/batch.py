"""A batch: rows with a pending selection, the values computed on them, and when they arrived."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from headgate.graph.expressions import Expr

NEVER = -(2**62)
"""The watermark before any event time was seen."""

FOREVER = 2**62
"""The watermark after the end of a stream: everything is complete."""


@dataclass(slots=True)
class Arrival:
    """When the rows of a batch entered the system, in seconds of one clock: enough for mean and worst latency."""

    count: int
    total: float
    first: float

    @staticmethod
    def at(now: float, rows: int) -> Arrival:
        return Arrival(rows, now * rows, now)

    @property
    def mean(self) -> float:
        return self.total / max(self.count, 1)


@dataclass(slots=True)
class Batch:
    """Rows on their way through the graph.

    `mask` is a pending selection: rows for which it is not true are dropped, but not yet copied away.
    `computed` keeps the value of each expression on all of `rows`; every reader of these rows shares it.
    `watermark` is the stream's watermark when the rows entered: rows behind it are late, however long they were queued.
    """

    rows: pa.RecordBatch
    arrival: Arrival
    watermark: int = NEVER
    mask: pa.BooleanArray | None = None
    computed: dict[Expr, pa.Array] = field(default_factory=dict)

    def materialized(self) -> Batch:
        """The batch with the pending selection applied; itself if there is none."""
        if self.mask is None:
            return self
        rows = self.rows.filter(self.mask)
        share = rows.num_rows / self.arrival.count if self.arrival.count else 0.0
        arrival = Arrival(rows.num_rows, self.arrival.total * share, self.arrival.first)
        return Batch(rows, arrival, self.watermark)

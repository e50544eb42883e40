"""The results of one query until they are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headgate.graph.queries import Query
from headgate.operators.batch import Arrival
from headgate.operators.columns import record
from headgate.operators.runner import newest_rows
from headgate.runtime.latency import Latency
from headgate.runtime.queue import QueuedBatch


@dataclass(frozen=True, slots=True)
class ResultBatch:
    """Rows of a query's result, in the order in which they were made, and when the rows that they stem from arrived.

    In mode append the columns are the visible ones. In mode update they are all columns of the plan: the visible ones,
    those that identify the row, and `deleted`; a row replaces the earlier one with the same identity.
    """

    rows: pa.RecordBatch
    arrival: Arrival


def result_table(query: Query, results: Sequence[ResultBatch]) -> pa.Table:
    """All results as one table: where rows replace earlier ones, the newest of each identity."""
    width = len(query.plan.schema) if query.mode == "update" else query.visible
    schema = pa.schema([pa.field(f.name, f.type) for f in query.plan.schema.fields[:width]])
    batches = [pa.RecordBatch.from_arrays(result.rows.columns, schema=schema) for result in results]
    rows = pa.Table.from_batches(batches, schema)
    if query.mode == "update":
        rows = newest_rows(rows, query.visible)
    return rows.rename_columns(list(query.schema.names))


class Outbox:
    """The results of a query that wait for the sink, as its last operator made them: one copy, shared with any other
    reader. Used under the network's lock.
    """

    def __init__(self, query: Query) -> None:
        self.query = query
        self.latency = Latency()
        self.rows = 0
        self.dropped = 0
        """Rows that the query lost while it was paused."""
        self.offered = self.shed = 0
        """Rows that arrived for the query while it was shed, and those of them that were dropped."""
        self.waiting: list[QueuedBatch] = []
        plan = query.plan.schema.names
        self._names = (*query.schema.names, *(plan[query.visible :] if query.mode == "update" else ()))

    def put(self, queued: QueuedBatch, now: float) -> None:
        """Adds results."""
        self.latency.add(now, queued.arrival)
        self.rows += queued.count
        self.waiting.append(queued)

    def forget(self) -> None:
        """Restarts the figures; results that wait stay."""
        self.latency = Latency()
        self.rows = self.dropped = self.offered = self.shed = 0

    def result(self, rows: pa.RecordBatch, arrival: Arrival) -> ResultBatch:
        """A waiting batch as the sink gets it: its columns, under the names that the query gives them."""
        arrays = [rows.column(index) for index in range(len(self._names))]
        return ResultBatch(record(arrays, self._names, rows.num_rows), arrival)

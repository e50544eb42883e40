"""The results of one query until they are published."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headgate.graph.queries import Query
from headgate.operators.batch import Arrival, Batch
from headgate.operators.columns import record
from headgate.runtime.held import Held
from headgate.runtime.latency import Latency


@dataclass(frozen=True, slots=True)
class Result:
    """Some rows of a query's result, in the order in which they were made, and when what they stem from arrived.

    In mode append the columns are the visible ones. In mode update they are all of the plan's: the visible ones,
    those that identify the row, and `deleted`; a row replaces the earlier one with the same identity.
    """

    rows: pa.RecordBatch
    arrival: Arrival


class Outbox:
    """Holds the results of a query that wait for the sink. Used under the network's lock."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.latency = Latency()
        self.rows = 0
        self.waiting: list[Held] = []
        plan = query.plan.schema.names
        self._names = (*query.schema.names, *(plan[query.visible :] if query.mode == "update" else ()))

    def shaped(self, batch: Batch) -> Batch:
        """The columns that a sink gets, under the names that the query gives them."""
        rows = batch.rows
        arrays = [rows.column(index) for index in range(len(self._names))]
        return Batch(record(arrays, self._names, rows.num_rows), batch.arrival, batch.watermark)

    def put(self, held: Held, now: float) -> None:
        """Adds results."""
        self.latency.add(now, held.arrival)
        self.rows += held.count
        self.waiting.append(held)

"""The output of an aggregate: results under the names of its schema, filtered by HAVING."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headgate.graph.operators import Aggregate
from headgate.operators.batch import Arrival, Batch
from headgate.operators.columns import record
from headgate.operators.evaluate import select


class AggregateOutput:
    """Builds batches of results. Their arrival is that of the newest rows, which completed them."""

    def __init__(self, node: Aggregate) -> None:
        self._names = node.schema.names
        self._having = () if node.having is None else (node.having,)
        self.newest = 0.0

    def arrived(self, arrival: Arrival) -> None:
        self.newest = max(self.newest, arrival.mean)

    def batch(self, columns: Sequence[pa.Array], rows: int) -> list[Batch]:
        """Results as a batch, or none if nothing passes HAVING."""
        if not rows:
            return []
        made = record(columns[: len(self._names)], self._names[: len(columns)], rows)
        batch = Batch(made, Arrival.at(self.newest, rows))
        if self._having:
            batch = select(batch, self._having).materialized()
        return [batch] if batch.rows.num_rows else []

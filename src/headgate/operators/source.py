"""The rows of a stream enter the graph as they are."""

from __future__ import annotations

from headgate.operators.batch import Batch
from headgate.operators.stateless import Stateless


class LiveSource(Stateless):
    """Passes on what the stream brings, including the columns that Catalyst computed."""

    def process(self, port: int, batch: Batch) -> list[Batch]:
        return [batch] if batch.rows.num_rows else []

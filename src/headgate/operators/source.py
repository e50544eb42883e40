"""The rows of a stream enter the graph unchanged."""

from __future__ import annotations

from headgate.graph.operators import Source
from headgate.operators.batch import Batch
from headgate.operators.registry import implements
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless


@implements(Source)
class LiveSource(Stateless):
    """Passes on the rows of the stream, including the columns that Catalyst computed."""

    def __init__(self, node: Source, settings: Settings) -> None:
        pass

    def process(self, port: int, batch: Batch) -> list[Batch]:
        return [batch] if batch.rows.num_rows else []

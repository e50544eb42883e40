"""Keeps the rows for which every predicate is true; copies no rows: it only narrows the pending selection."""

from __future__ import annotations

from headgate.graph.operators import Select
from headgate.operators.batch import Batch
from headgate.operators.evaluate import Selection
from headgate.operators.registry import implements
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless


@implements(Select)
class LiveSelect(Stateless):
    """A selection. The values of its comparisons stay with the rows, so that other operators reuse them."""

    def __init__(self, node: Select, settings: Settings) -> None:
        self._select = Selection(node.predicates)

    def process(self, port: int, batch: Batch) -> list[Batch]:
        # The caller counts the selected rows anyway, and drops a batch without any.
        return [self._select(batch)]

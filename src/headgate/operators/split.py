"""Routes each row to the first condition that is true (003 §3)."""

from __future__ import annotations

from headgate.expressions.functions import fallible
from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.operators import Split
from headgate.graph.types import INT
from headgate.operators.batch import Batch
from headgate.operators.columns import record
from headgate.operators.evaluate import evaluate
from headgate.operators.registry import implements
from headgate.operators.settings import Settings
from headgate.operators.stateless import Stateless


@implements(Split)
class LiveSplit(Stateless):
    """Appends the number of the route. A condition sees only the rows that no condition before it took."""

    def __init__(self, node: Split, settings: Settings) -> None:
        arms: list[Expr] = []
        for route, condition in enumerate(node.conditions):
            arms += [condition, Literal(INT, route)]
        self._route = Call(INT, "case", (*arms, Literal(INT, len(node.conditions))))
        self._names = node.schema.names

    def process(self, port: int, batch: Batch) -> list[Batch]:
        if fallible(self._route):
            batch = batch.materialized()
        arrays = batch.rows.columns[: len(self._names) - 1]
        arrays.append(evaluate(self._route, batch))
        rows = record(arrays, self._names, batch.rows.num_rows)
        return [Batch(rows, batch.arrival, batch.watermark, batch.mask)]

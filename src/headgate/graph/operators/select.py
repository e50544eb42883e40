"""Rows for which conditions hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headgate.graph.expressions import Column, Expr
from headgate.graph.operators.operator import Unary, Write


@dataclass(frozen=True, eq=False)
class Select(Unary):
    """Keeps the rows for which every predicate is true. Predicates are in canonical order, fallible ones last."""

    predicates: tuple[Expr, ...]

    passes_batches: ClassVar[bool] = True
    makes_rows: ClassVar[bool] = True
    selectivity: ClassVar[float] = 0.5
    strict: ClassVar[bool] = False

    def below(self, column: int) -> Expr | None:
        return Column(self.schema[column].type, column)

    def obstacle(self, number: int | None) -> str | None:
        return None

    @property
    def detail(self) -> str:
        return " and ".join(p.text for p in self.predicates)

    def describe(self, write: Write) -> str:
        return " AND ".join(self._written(self.predicates, write))

"""Rows with the route that they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headgate.graph.expressions import Expr
from headgate.graph.operators.operator import Unary, Write


@dataclass(frozen=True, eq=False)
class Split(Unary):
    """Routes each row to the first condition that is true (003 §3): appends the route as an INT column.

    Routes count from 0; a row for which no condition is true gets the number of conditions (OTHERWISE).
    """

    conditions: tuple[Expr, ...]

    narrows: ClassVar[bool] = False
    selectivity: ClassVar[float] = 0.5

    @property
    def detail(self) -> str:
        return " | ".join(c.text for c in self.conditions)

    def describe(self, write: Write) -> str:
        return " | ".join(self._written(self.conditions, write))

"""New columns from each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headgate.graph.event_times import EventTimes, time_of
from headgate.graph.expressions import Column, Expr
from headgate.graph.operators.operator import Unary, Write


@dataclass(frozen=True, eq=False)
class Project(Unary):
    """Computes new columns."""

    exprs: tuple[Expr, ...]

    strict: ClassVar[bool] = False

    @property
    def passes(self) -> tuple[int, ...]:
        return ()

    def origins(self, column: int) -> tuple[tuple[int, int], ...]:
        expr = self.exprs[column]
        return ((0, expr.index),) if isinstance(expr, Column) else ()

    def below(self, column: int) -> Expr | None:
        return self.exprs[column]

    def obstacle(self, number: int | None) -> str | None:
        return None if number is not None else "it depends on what a subquery computes"

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        return (expr.rewrite(lambda part: self.exprs[part.index] if isinstance(part, Column) else None),)

    def times(self, inputs: Sequence[EventTimes]) -> EventTimes:
        found = ((i, time_of(expr, inputs[0])) for i, expr in enumerate(self.exprs))
        return {i: time for i, time in found if time is not None}

    @property
    def detail(self) -> str:
        return ", ".join(e.text for e in self.exprs)

    def describe(self, write: Write) -> str:
        shown = zip(self._written(self.exprs, write), self.schema.names, strict=True)
        return ", ".join(text if text == name else f"{text} AS {name}" for text, name in shown)

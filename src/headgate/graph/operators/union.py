"""All rows of several inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from headgate.graph.expressions import Column, Expr
from headgate.graph.operators.operator import Operator, Write


@dataclass(frozen=True, eq=False)
class Union(Operator):
    """All rows of all inputs (UNION ALL)."""

    parts: tuple[Operator, ...]

    cost: ClassVar[float] = 2e-8
    strict: ClassVar[bool] = False

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return self.parts

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Self:
        return replace(self, parts=inputs)

    def origins(self, column: int) -> tuple[tuple[int, int], ...]:
        return tuple((number, column) for number in range(len(self.parts)))

    def below(self, column: int) -> Expr | None:
        return Column(self.schema[column].type, column)

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        same = all(part.schema[i].type == self.schema[i].type for part in self.parts for i in expr.columns)
        return (expr,) * len(self.parts) if same else None

    def obstacle(self, number: int | None) -> str | None:
        return "it stands above a UNION"

    @property
    def detail(self) -> str:
        return str(len(self.parts))

    def describe(self, write: Write) -> str:
        return f"of {len(self.parts)}"

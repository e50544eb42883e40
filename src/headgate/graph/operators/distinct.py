"""Rows without repetition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headgate.graph.expressions import Column, Expr
from headgate.graph.operators.operator import Unary, Write, all_columns


@dataclass(frozen=True, eq=False)
class Distinct(Unary):
    """Each different row once. `time` bounds the state: a row is forgotten when the watermark passes it."""

    time: Expr

    stateful: ClassVar[bool] = True
    compares_rows: ClassVar[bool] = True
    makes_rows: ClassVar[bool] = True
    cost: ClassVar[float] = 4e-7
    selectivity: ClassVar[float] = 0.5
    strict: ClassVar[bool] = False

    def below(self, column: int) -> Expr | None:
        return Column(self.schema[column].type, column)

    @property
    def partition_keys(self) -> tuple[tuple[Expr, ...], ...] | None:
        return tuple((column,) for column in all_columns(self))

    def obstacle(self, number: int | None) -> str | None:
        return "it stands above a DISTINCT"

    @property
    def detail(self) -> str:
        return f"until {self.time.text}"

    def describe(self, write: Write) -> str:
        return f"rows, kept until {''.join(self._written((self.time,), write))}"

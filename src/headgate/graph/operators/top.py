"""The first rows of each partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from typing import Literal as OneOf

from headgate.graph.expressions import Expr, in_terms_of
from headgate.graph.operators.operator import Clause, Unary, Write


@dataclass(frozen=True)
class Order(Clause):
    """One term of an ORDER BY."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = True

    @property
    def text(self) -> str:
        return f"{self.expr.text}{' desc' if self.descending else ''} nulls {'first' if self.nulls_first else 'last'}"


@dataclass(frozen=True, eq=False)
class Top(Unary):
    """The first `count` rows of each partition by an order; the partition is complete when the watermark passes `time`.

    `ranking` is row_number, rank or dense_rank; the rank is appended as an INT column.
    """

    partition: tuple[Expr, ...]
    order: tuple[Order, ...]
    count: int
    ranking: OneOf["row_number", "rank", "dense_rank"]
    time: Expr

    stateful: ClassVar[bool] = True
    makes_rows: ClassVar[bool] = True
    cost: ClassVar[float] = 4e-7
    selectivity: ClassVar[float] = 0.1

    @property
    def partition_keys(self) -> tuple[tuple[Expr, ...], ...] | None:
        return tuple((key,) for key in self.partition)

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        found = in_terms_of(expr, self.partition, self.partition)
        return None if found is None else (found,)

    @property
    def detail(self) -> str:
        partition = ", ".join(p.text for p in self.partition)
        order = ", ".join(o.text for o in self.order)
        return f"{self.count} by {self.ranking} of {partition} order {order} until {self.time.text}"

    def describe(self, write: Write) -> str:
        terms = self._written((o.expr for o in self.order), write)
        order = ", ".join(text + (" DESC" if o.descending else "") for text, o in zip(terms, self.order, strict=True))
        partition = ", ".join(self._written(self.partition, write))
        return f"{self.count} by {self.ranking} of each {partition}, ordered by {order}"

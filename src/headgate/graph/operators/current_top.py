"""The first rows of each partition among the current rows of a query that updates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar
from typing import Literal as OneOf

from headgate.graph.expressions import Expr, in_terms_of
from headgate.graph.operators.operator import ALL, Unary, Write, over
from headgate.graph.operators.top import Order


@dataclass(frozen=True, eq=False)
class CurrentTop(Unary):
    """The first `count` rows of each partition by an order, among rows that replace earlier ones.

    A row of the input replaces the earlier row with the same `identity`, or deletes it (`deleted`). Output: the columns
    of the input, the rank (INT), and `deleted`: at every watermark the rows that are now among the first and whose
    values or rank changed, and as deleted those that are no longer. The identity stays that of the input. `having` is
    over the input's columns and the output's own; a row that does not pass it counts, but is not shown.
    """

    partition: tuple[Expr, ...]
    order: tuple[Order, ...]
    count: int
    ranking: OneOf["row_number", "rank", "dense_rank"]
    identity: tuple[Expr, ...]
    deleted: Expr
    having: Expr | None = field(default=None, metadata=over(ALL))

    stateful: ClassVar[bool] = True
    makes_rows: ClassVar[bool] = True
    cost: ClassVar[float] = 1e-6
    selectivity: ClassVar[float] = 0.5

    @property
    def _dividing(self) -> tuple[Expr, ...]:
        """The keys of the partition that no row changes when it is replaced."""
        return tuple(key for key in self.partition if key.columns and in_terms_of(key, self.identity, self.identity))

    @property
    def partition_keys(self) -> tuple[tuple[Expr, ...], ...] | None:
        """Only keys that depend on the identity alone: a row that moves to another partition must leave its old one."""
        return tuple((key,) for key in self._dividing)

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        keys = self._dividing
        found = in_terms_of(expr, keys, keys) if expr.columns else None
        return None if found is None else (found,)

    @property
    def detail(self) -> str:
        partition = ", ".join(p.text for p in self.partition)
        order = ", ".join(o.text for o in self.order)
        identity = ", ".join(i.text for i in self.identity)
        having = f" having {self.having.text}" if self.having is not None else ""
        text = f"{self.count} by {self.ranking} of {partition} order {order}"
        return f"{text} for {identity} unless {self.deleted.text}{having}"

    def describe(self, write: Write) -> str:
        terms = self._written((o.expr for o in self.order), write)
        order = ", ".join(text + (" DESC" if o.descending else "") for text, o in zip(terms, self.order, strict=True))
        partition = ", ".join(self._written(self.partition, write))
        each = f" of each {partition}" if partition else ""
        text = f"{self.count} by {self.ranking}{each} among the current rows, ordered by {order}"
        if self.having is not None:
            text += f" having {write(self.having, self.schema.names)}"
        return text

"""Rows of a stream with their partners among the current rows of a query that updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from headgate.graph.event_times import EventTimes
from headgate.graph.expressions import Expr, in_terms_of
from headgate.graph.operators.join import Binary
from headgate.graph.operators.operator import ALL, LEFT, RIGHT, Write, over


@dataclass(frozen=True, eq=False)
class CurrentJoin(Binary):
    """Joins each row of the left side once, with the rows of the right side that are current at its event time.

    A row of the right side replaces the earlier row with the same `identity`, or deletes it (`deleted`). A left row
    waits until the watermarks of both sides have passed its `time`, and is then joined with the rows as they were when
    the right side's watermark passed it: with every change that came while that watermark was before it. So the result
    depends on the rows and watermarks of each side alone. Right keys depend on the identity only. `residual` sees left
    columns, then right columns.
    """

    time: Expr = field(metadata=over(LEFT))
    left_keys: tuple[Expr, ...] = field(metadata=over(LEFT))
    right_keys: tuple[Expr, ...] = field(metadata=over(RIGHT))
    identity: tuple[Expr, ...] = field(metadata=over(RIGHT))
    deleted: Expr = field(metadata=over(RIGHT))
    residual: tuple[Expr, ...] = field(default=(), metadata=over(ALL))

    stateful: ClassVar[bool] = True
    makes_rows: ClassVar[bool] = True
    cost: ClassVar[float] = 1e-6

    @property
    def partition_keys(self) -> tuple[tuple[Expr, ...], ...] | None:
        return tuple(zip(self.left_keys, self.right_keys, strict=True))

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        """A row without a partner has nulls in the columns of the right side, wherever it is."""
        width = len(self.left.schema)
        if expr.columns and max(expr.columns) < width:
            right = in_terms_of(expr, self.left_keys, self.right_keys)
            return None if right is None else (expr, right)
        if expr.columns and min(expr.columns) >= width and self.how == "inner":
            right = expr.shifted(-width)
            left = in_terms_of(right, self.right_keys, self.left_keys)
            return None if left is None else (left, right)
        return None

    def times(self, inputs: Sequence[EventTimes]) -> EventTimes:
        """Those of the left side: the rows of the right side have none."""
        return dict(inputs[LEFT])

    @property
    def detail(self) -> str:
        keys = ", ".join(f"{a.text} = {b.text}" for a, b in zip(self.left_keys, self.right_keys, strict=True))
        residual = "".join(f" and {r.text}" for r in self.residual)
        identity = ", ".join(i.text for i in self.identity)
        return f"{self.how} on {keys} at {self.time.text} for {identity} unless {self.deleted.text}{residual}"

    def describe(self, write: Write) -> str:
        left, right = self.left.schema.names, self.right.schema.names
        keys = zip(self.left_keys, self.right_keys, strict=True)
        on = [f"{write(a, left)} = {write(b, right)}" for a, b in keys] + self._written(self.residual, write)
        rows = f"{self.how} with the current rows on {' AND '.join(on)}" if on else f"{self.how} with all current rows"
        return f"{rows}, when {write(self.time, left)} is complete"

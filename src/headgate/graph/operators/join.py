"""Pairs of rows of two streams."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self
from typing import Literal as OneOf

from headgate.graph.durations import short_duration
from headgate.graph.expressions import Expr, in_terms_of
from headgate.graph.operators.operator import ALL, LEFT, RIGHT, Clause, Operator, Write, over

JoinKind = OneOf["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class TimeBound(Clause):
    """Which pairs of event times may match: low <= right time - left time <= high (None: open)."""

    left: Expr = field(metadata=over(LEFT))
    right: Expr = field(metadata=over(RIGHT))
    low: int | None
    high: int | None

    @property
    def text(self) -> str:
        return f"{self.low} <= {self.right.text} - {self.left.text} <= {self.high}"


@dataclass(frozen=True, eq=False)
class Binary(Operator):
    """An operator with a left and a right input: it passes the columns of both, or of the left (semi, anti)."""

    left: Operator
    right: Operator
    how: JoinKind

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Self:
        return replace(self, left=inputs[0], right=inputs[1])

    @property
    def passes(self) -> tuple[int, ...]:
        return (LEFT,) if self.how in ("semi", "anti") else (LEFT, RIGHT)


@dataclass(frozen=True, eq=False)
class Join(Binary):
    """Joins two streams on equal keys within a bound of time. `residual` sees left columns, then right columns."""

    left_keys: tuple[Expr, ...] = field(metadata=over(LEFT))
    right_keys: tuple[Expr, ...] = field(metadata=over(RIGHT))
    bound: TimeBound
    residual: tuple[Expr, ...] = field(default=(), metadata=over(ALL))

    stateful: ClassVar[bool] = True
    makes_rows: ClassVar[bool] = True
    cost: ClassVar[float] = 1e-6

    @property
    def partition_keys(self) -> tuple[tuple[Expr, ...], ...] | None:
        return tuple(zip(self.left_keys, self.right_keys, strict=True))

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        """A row without a partner has nulls in the columns of the other side, wherever it is."""
        width = len(self.left.schema)
        if expr.columns and max(expr.columns) < width and self.how in ("inner", "left", "semi", "anti"):
            left, right = expr, in_terms_of(expr, self.left_keys, self.right_keys)
            return None if right is None else (left, right)
        if expr.columns and min(expr.columns) >= width and self.how in ("inner", "right"):
            right = expr.shifted(-width)
            other = in_terms_of(right, self.right_keys, self.left_keys)
            return None if other is None else (other, right)
        return None

    @property
    def detail(self) -> str:
        keys = ", ".join(f"{a.text} = {b.text}" for a, b in zip(self.left_keys, self.right_keys, strict=True))
        residual = "".join(f" and {r.text}" for r in self.residual)
        return f"{self.how} on {keys} within {self.bound.text}{residual}"

    def describe(self, write: Write) -> str:
        left, right = self.left.schema.names, self.right.schema.names
        keys = zip(self.left_keys, self.right_keys, strict=True)
        on = [f"{write(a, left)} = {write(b, right)}" for a, b in keys] + self._written(self.residual, write)
        bound = self.bound
        low = "…" if bound.low is None else short_duration(bound.low)
        high = "…" if bound.high is None else short_duration(bound.high)
        times = f"{write(bound.right, right)} - {write(bound.left, left)}"
        return f"{self.how} on {' AND '.join(on) or 'time alone'}, {times} in [{low}, {high}]"

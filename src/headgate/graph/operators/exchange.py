"""The operators of an exchange between replicas: the two halves of an operator, the end of a fragment, and what goes
with rows that cross unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

from headgate.graph.event_times import EventTimes
from headgate.graph.expressions import Column, Expr, in_terms_of
from headgate.graph.operators.aggregate import Aggregate
from headgate.graph.operators.operator import OUTPUT, ColumnScope, Operator, Unary, Write, over
from headgate.graph.operators.top import Top
from headgate.graph.types import BIGINT, Field, Schema

FIRST_KEY = 1
"""The position of the first key among the columns of partial states; the pane is before it."""

ROWS = "rows before the exchange"


@dataclass(frozen=True, eq=False)
class Send(Unary):
    """The end of a fragment: sends its rows and its watermark to the replicas that read its stream."""

    @property
    def detail(self) -> str:
        return ""

    def describe(self, write: Write) -> str:
        return "to the replicas that read it"


@dataclass(frozen=True, eq=False)
class AggregateHalf(Unary):
    """One half of an aggregate. `aggregate` says what is computed; its input is not read."""

    aggregate: Aggregate

    makes_rows: ClassVar[bool] = True
    cost: ClassVar[float] = Aggregate.cost

    @property
    def passes(self) -> tuple[int, ...]:
        return ()

    @cached_property
    def python_functions(self) -> dict[str, float]:
        return self.aggregate.python_functions

    @property
    def detail(self) -> str:
        return self.aggregate.detail

    def describe(self, write: Write) -> str:
        return self.aggregate.describe(write)


@dataclass(frozen=True, eq=False)
class Partial(AggregateHalf):
    """The first half of an aggregate: the states of the groups of each batch. Late rows are dropped here.

    Output: the pane, the keys, the columns of the states.
    """

    selectivity: ClassVar[float] = Aggregate.selectivity

    @cached_property
    def expressions(self) -> tuple[tuple[ColumnScope, Expr], ...]:
        return self.aggregate.expressions

    def with_expressions(self, change: Callable[[ColumnScope, Expr], Expr]) -> Self:
        changed = self.aggregate.with_expressions(change)
        return self if changed is self.aggregate else replace(self, aggregate=changed)

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        found = in_terms_of(expr, state_keys(self.aggregate), self.aggregate.keys)
        return None if found is None else (found,)


@dataclass(frozen=True, eq=False)
class Merge(AggregateHalf):
    """The second half of an aggregate: merges partial states, and emits what the aggregate emits."""

    stateful: ClassVar[bool] = True
    compares_rows: ClassVar[bool] = True

    @property
    def partition_keys(self) -> tuple[tuple[Expr, ...], ...] | None:
        return tuple((key,) for key in state_keys(self.aggregate))

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        first = self.aggregate.first_key
        columns = [Column(key.type, place) for place, key in enumerate(self.aggregate.keys, first)]
        found = in_terms_of(expr, columns, state_keys(self.aggregate))
        return None if found is None else (found,)

    def with_expressions(self, change: Callable[[ColumnScope, Expr], Expr]) -> Self:
        """The expressions of the aggregate are over the rows that its first half read."""
        changed = self.aggregate.with_expressions(lambda _, expr: change(ROWS, expr))
        return self if changed is self.aggregate else replace(self, aggregate=changed)


@dataclass(frozen=True, eq=False)
class Candidates(Top):
    """The first half of a Top: the rows of a replica that may be among the first of all replicas, unchanged."""

    @property
    def partition_keys(self) -> tuple[tuple[Expr, ...], ...] | None:
        """Rows may go to any replica: each keeps the first of its own rows."""
        return None

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        return Operator.located(self, expr)


@dataclass(frozen=True, eq=False)
class Stamp(Unary):
    """Rows before an exchange, with what their receivers need beside them: the values of `keys`, and the watermark that
    the rows had when they entered. So they are late there where they would be late here, and the receivers compute no
    key that may fail.
    """

    keys: tuple[Expr, ...] = ()

    @staticmethod
    def over(rows: Operator, keys: Sequence[Expr]) -> Stamp:
        """The rows of an operator, with these keys."""
        own = (*(Field(f"key{number}", key.type) for number, key in enumerate(keys)), Field("watermark", BIGINT))
        return Stamp(Schema((*rows.schema.fields, *own)), rows, tuple(keys))

    @property
    def detail(self) -> str:
        return ", ".join(key.text for key in self.keys)

    def describe(self, write: Write) -> str:
        return ", ".join(["watermark", *self._written(self.keys, write)])


@dataclass(frozen=True, eq=False)
class Unstamp(Unary):
    """Rows after an exchange: `Stamp` undone. `keys` are those of the stamp, over the columns of the rows."""

    keys: tuple[Expr, ...] = field(default=(), metadata=over(OUTPUT))

    @property
    def passes(self) -> tuple[int, ...]:
        return ()

    def origins(self, column: int) -> tuple[tuple[int, int], ...]:
        return ((0, column),)

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        """A key of the stamp is a column beside the rows."""
        columns = [Column(key.type, place) for place, key in enumerate(self.keys, len(self.schema))]
        rewritten = next((column for key, column in zip(self.keys, columns, strict=True) if key == expr), expr)
        return (rewritten,)

    def times(self, inputs: Sequence[EventTimes]) -> EventTimes:
        return {column: time for column, time in inputs[0].items() if column < len(self.schema)}

    @property
    def detail(self) -> str:
        return ", ".join(key.text for key in self.keys)

    def describe(self, write: Write) -> str:
        return "as they were sent"


def state_keys(aggregate: Aggregate) -> tuple[Expr, ...]:
    """The keys of an aggregate as columns of its partial states."""
    return tuple(Column(key.type, place) for place, key in enumerate(aggregate.keys, FIRST_KEY))

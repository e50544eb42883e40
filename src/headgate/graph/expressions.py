"""Expressions as immutable data: what is computed from the columns of one row.

Columns are named by position, so that two queries which call the same thing by different names share it.
Equality and hash are structural; the hash is kept, since expressions are looked up once per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from headgate.graph.structural import Structural

PYTHON_TIME_LIMIT = 30.0
"""Seconds that a Python function may take for one batch, unless its declaration says otherwise."""


@dataclass(frozen=True, eq=False)
class Expr(Structural):
    """A typed value per row. Subclasses: Column, Literal, Call, Foreign."""

    type: pa.DataType

    @property
    def args(self) -> tuple[Expr, ...]:
        return ()

    @cached_property
    def columns(self) -> frozenset[int]:
        """The positions of the input columns it reads."""
        return frozenset().union(*(arg.columns for arg in self.args))

    def walk(self) -> Iterator[Expr]:
        """This expression and all inside it, outermost first."""
        yield self
        for arg in self.args:
            yield from arg.walk()

    def rewrite(self, change: Callable[[Expr], Expr | None]) -> Expr:
        """Replaces each node for which `change` returns an expression; the replacement is not visited again."""
        return change(self) or self

    def moved(self, positions: dict[int, int]) -> Expr:
        """The same expression over an input whose columns have other positions.

        >>> Column(pa.int32(), 0).moved({0: 3}).text
        '#3'
        """
        return self.rewrite(lambda e: Column(e.type, positions[e.index]) if isinstance(e, Column) else None)

    def shifted(self, by: int) -> Expr:
        """The same expression over columns that are `by` positions further to the right."""
        return self.rewrite(lambda e: Column(e.type, e.index + by) if isinstance(e, Column) else None)

    def __str__(self) -> str:
        return self.text


def in_terms_of(expr: Expr, keys: Sequence[Expr], others: Sequence[Expr]) -> Expr | None:
    """Rewrites an expression over `keys` as the same over `others`; None if it reads anything but the keys.

    A key with floating-point numbers must be the whole expression: -0.0 and 0.0 are one key, but not one argument.

    >>> a, b, c = (Column(pa.int32(), i) for i in range(3))
    >>> in_terms_of(Call(pa.int32(), "abs", (a,)), [a, b], [b, c]).text, in_terms_of(c, [a, b], [b, c])
    ('abs(#1):int32', None)
    """
    for key, other in zip(keys, others, strict=True):
        if expr == key:
            return other if other.type == key.type else None
    if isinstance(expr, Literal):
        return expr
    if not isinstance(expr, Call) or any(arg in keys and _floating(arg.type) for arg in expr.args):
        return None
    found = [in_terms_of(arg, keys, others) for arg in expr.args]
    parts = tuple(part for part in found if part is not None)
    return replace(expr, arguments=parts) if len(parts) == len(found) else None


def _floating(type_: pa.DataType) -> bool:
    """Whether a type is, or contains, a floating-point type."""
    inside = [type_.field(i).type for i in range(type_.num_fields)]
    return bool(pa.types.is_floating(type_)) or any(_floating(part) for part in inside)


@dataclass(frozen=True, eq=False)
class Column(Expr):
    """The input's column at a position."""

    index: int

    @cached_property
    def text(self) -> str:
        return f"#{self.index}"

    @cached_property
    def columns(self) -> frozenset[int]:
        return frozenset((self.index,))


@dataclass(frozen=True, eq=False)
class Literal(Expr):
    """A constant: a Python value that Arrow takes for the type; None is NULL."""

    value: Any

    @cached_property
    def text(self) -> str:
        return f"{self.value!r}:{self.type}"

    @property
    def scalar(self) -> pa.Scalar:
        value = self.value
        if isinstance(value, timedelta):  # Arrow refuses the shortest of all intervals as a timedelta
            value = value // timedelta(microseconds=1)
        return pa.scalar(value, self.type)


@dataclass(frozen=True, eq=False)
class Call(Expr):
    """A function of other expressions: operators, casts, CASE and named functions alike.

    `name` is a canonical name of `headgate.expressions.functions`. A cast is `Call(target_type, "cast", (x,))`; CASE is
    `Call(type, "case", (when1, then1, …, else))`; a Python function is
    `Call(type, "python", args, option="module:function")`.

    `time_limit` is that of a Python function, in seconds; None is `PYTHON_TIME_LIMIT`. It is not part of the identity:
    operators keep their state when a declaration changes it. `sql/declare.py` allows one limit per target.
    """

    name: str
    arguments: tuple[Expr, ...]
    option: str = ""
    time_limit: float | None = field(default=None, compare=False)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self.arguments

    @cached_property
    def text(self) -> str:
        inside = ", ".join(arg.text for arg in self.arguments)
        option = f"[{self.option}]" if self.option else ""
        return f"{self.name}{option}({inside}):{self.type}"

    def rewrite(self, change: Callable[[Expr], Expr | None]) -> Expr:
        changed = change(self)
        if changed is not None:
            return changed
        arguments = tuple(arg.rewrite(change) for arg in self.arguments)
        if all(new is old for new, old in zip(arguments, self.arguments, strict=True)):
            return self
        return replace(self, arguments=arguments)


@dataclass(frozen=True, eq=False)
class Foreign(Expr):
    """An expression that Catalyst computes before the rows enter the worker (docs/architecture.md).

    `sql` is Spark SQL over the names of one stream's declared columns, in canonical spelling. The value travels
    with the stream's rows as an extra column named `key`. It may stand only in operators that reach their
    source through selections alone.
    """

    sql: str
    reads: frozenset[int] = field(default=frozenset(), compare=False)

    @cached_property
    def text(self) -> str:
        return f"catalyst[{self.sql}]:{self.type}"

    @property
    def key(self) -> str:
        return f"catalyst:{self.sql}"

    @cached_property
    def columns(self) -> frozenset[int]:
        return self.reads

"""Operators as immutable data: the nodes of the query graph.

An operator is what to do, over inputs that are operators themselves; how it is done is in `headgate.operators`.
Two operators are equal when they do the same to equal inputs, whatever their columns are called.
All times and durations are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal as OneOf

import pyarrow as pa

from headgate.graph.expressions import Expr
from headgate.graph.structural import Structural
from headgate.graph.types import Field, Schema

JoinKind = OneOf["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, eq=False)
class Operator(Structural):
    """One node. Subclasses say what it does; `schema` is what it puts out."""

    schema: Schema = field(compare=False)

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return ()

    @property
    def kind(self) -> str:
        """The word for it in explain, statistics and defaults: select, project, aggregate …"""
        return type(self).__name__.lower()

    @cached_property
    def text(self) -> str:
        """A canonical spelling that includes the inputs'; equal operators have equal texts."""
        inside = " ".join(f"({i.text})" for i in self.inputs)
        return f"{self.kind} {self.detail} {inside}".rstrip()

    @property
    def detail(self) -> str:
        """What it does, without its inputs."""
        raise NotImplementedError

    @property
    def stateful(self) -> bool:
        return False

    def walk(self) -> Iterator[Operator]:
        """This operator and all it depends on, each once, inputs first."""
        seen: set[Operator] = set()

        def visit(node: Operator) -> Iterator[Operator]:
            if node in seen:
                return
            seen.add(node)
            for source in node.inputs:
                yield from visit(source)
            yield node

        yield from visit(self)


@dataclass(frozen=True, eq=False)
class Source(Operator):
    """The rows of a stream. `time` is the position of its event time, `delay` how late a row may be."""

    stream: str
    time: int | None = None
    delay: int = 0

    @property
    def detail(self) -> str:
        return self.stream


@dataclass(frozen=True, eq=False)
class Unary(Operator):
    """An operator with one input."""

    input: Operator

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=False)
class Select(Unary):
    """Keeps the rows for which every predicate is true. Predicates are in canonical order, fallible ones last."""

    predicates: tuple[Expr, ...]

    @property
    def detail(self) -> str:
        return " and ".join(p.text for p in self.predicates)


@dataclass(frozen=True, eq=False)
class Project(Unary):
    """Computes new columns."""

    exprs: tuple[Expr, ...]

    @property
    def detail(self) -> str:
        return ", ".join(e.text for e in self.exprs)


@dataclass(frozen=True, eq=False)
class Expand(Unary):
    """Repeats each row once per hopping window it is in; appends the window as a struct column."""

    window: Window

    @property
    def detail(self) -> str:
        return self.window.text


@dataclass(frozen=True)
class Window:
    """How rows are cut into windows by event time or by count.

    time: `length` and `slide` (equal: tumbling) in microseconds with `offset`; session: `length` is the gap;
    rows: `length` rows, a new window each `slide` rows of the operator's input, in arrival order.
    """

    kind: OneOf["time", "session", "rows"]
    length: int
    slide: int = 0
    offset: int = 0
    on: Expr | None = None

    @property
    def text(self) -> str:
        on = self.on.text if self.on is not None else ""
        return f"{self.kind}({on}; {self.length}; {self.slide}; {self.offset})"


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate function. `where` is its FILTER clause; `option` carries constants (for example a precision)."""

    name: str
    args: tuple[Expr, ...]
    type: pa.DataType
    distinct: bool = False
    where: Expr | None = None
    option: str = ""

    @property
    def text(self) -> str:
        inside = ", ".join(a.text for a in self.args)
        distinct = "distinct " if self.distinct else ""
        where = f" where {self.where.text}" if self.where is not None else ""
        option = f"[{self.option}]" if self.option else ""
        return f"{self.name}{option}({distinct}{inside}){where}:{self.type}"


@dataclass(frozen=True, eq=False)
class Aggregate(Unary):
    """Groups by keys inside windows. Output: the window (if by time or session) as a struct, the keys, the aggregates.

    Without a window it puts out, at every watermark, the groups that changed (an update stream): the row's last
    column is then the boolean `deleted`, true for a group that was put out and no longer passes `having`.
    """

    keys: tuple[Expr, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | None = None
    having: Expr | None = None

    @property
    def detail(self) -> str:
        keys = ", ".join(k.text for k in self.keys)
        calls = ", ".join(c.text for c in self.calls)
        window = self.window.text if self.window is not None else ""
        having = f" having {self.having.text}" if self.having is not None else ""
        return f"{window} by {keys}: {calls}{having}"

    @property
    def stateful(self) -> bool:
        return True


@dataclass(frozen=True)
class TimeBound:
    """Which pairs of event times may match: low <= right time - left time <= high (None: open)."""

    left: Expr
    right: Expr
    low: int | None
    high: int | None

    @property
    def text(self) -> str:
        return f"{self.low} <= {self.right.text} - {self.left.text} <= {self.high}"


@dataclass(frozen=True, eq=False)
class Join(Operator):
    """Joins two streams on equal keys within a bound of time. `residual` sees left columns, then right columns."""

    left: Operator
    right: Operator
    how: JoinKind
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    bound: TimeBound
    residual: tuple[Expr, ...] = ()

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    @property
    def detail(self) -> str:
        keys = ", ".join(f"{a.text} = {b.text}" for a, b in zip(self.left_keys, self.right_keys, strict=True))
        residual = "".join(f" and {r.text}" for r in self.residual)
        return f"{self.how} on {keys} within {self.bound.text}{residual}"

    @property
    def stateful(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Lookup(Unary):
    """Joins each row with a static table (stream on the left)."""

    table: str
    table_schema: Schema = field(compare=False)
    how: JoinKind
    keys: tuple[Expr, ...]
    table_keys: tuple[Expr, ...]
    residual: tuple[Expr, ...] = ()

    @property
    def detail(self) -> str:
        keys = ", ".join(f"{a.text} = {b.text}" for a, b in zip(self.keys, self.table_keys, strict=True))
        residual = "".join(f" and {r.text}" for r in self.residual)
        return f"{self.table} {self.how} on {keys}{residual}"


@dataclass(frozen=True, eq=False)
class Union(Operator):
    """All rows of all inputs (UNION ALL)."""

    parts: tuple[Operator, ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return self.parts

    @property
    def detail(self) -> str:
        return str(len(self.parts))


@dataclass(frozen=True, eq=False)
class Distinct(Unary):
    """Each different row once. `time` bounds the state: a row is forgotten when the watermark passes it."""

    time: Expr

    @property
    def detail(self) -> str:
        return f"until {self.time.text}"

    @property
    def stateful(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Split(Unary):
    """Routes each row to the first condition that is true (003 §3): appends the route as an INT column.

    Routes count from 0; a row for which no condition is true gets the number of conditions (OTHERWISE).
    """

    conditions: tuple[Expr, ...]

    @property
    def detail(self) -> str:
        return " | ".join(c.text for c in self.conditions)


@dataclass(frozen=True)
class Order:
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

    @property
    def detail(self) -> str:
        partition = ", ".join(p.text for p in self.partition)
        order = ", ".join(o.text for o in self.order)
        return f"{self.count} by {self.ranking} of {partition} order {order} until {self.time.text}"

    @property
    def stateful(self) -> bool:
        return True


def concat(*schemas: Schema) -> Schema:
    """The columns of several schemas, one after the other."""
    parts: tuple[Field, ...] = ()
    for schema in schemas:
        parts += schema.fields
    return Schema(parts)

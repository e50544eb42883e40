"""What a SELECT reads while it is bound: an operator, and named columns as expressions over its output.

Columns stay expressions until the plan is made, so projections over projections are merged automatically.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from headgate.graph.event_times import EventTimes
from headgate.graph.expressions import Call, Column, Expr
from headgate.graph.operators import Binary, Operator, Order, Project, Select, Unary
from headgate.graph.operators.operator import ALL, LEFT, RIGHT, over
from headgate.graph.queries import Table
from headgate.graph.types import BOOLEAN, Field, Schema
from headgate.sql.times import times


@dataclass(frozen=True)
class NamedColumn:
    """A named column. `qualifiers` are the FROM items that may qualify its name, as in `s.temperature`."""

    name: str
    expr: Expr
    qualifiers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Relation:
    """Named columns over an operator's output.

    `identity` is None for rows that are final. For rows that replace earlier ones (an unwindowed aggregate) it
    holds the expressions that identify the row, and last the flag `deleted`.
    """

    base: Operator
    columns: tuple[NamedColumn, ...]
    identity: tuple[Expr, ...] | None = None

    def where(self, predicates: Iterable[Expr]) -> Relation:
        """The rows for which all predicates (over the base) are true.

        A row that replaces an earlier one and fails a predicate deletes that one: over an aggregate or a rank the
        predicates become its HAVING (`pushdown.py`), over another query they mark rows as deleted. Those over the
        identity alone are the same for both rows.
        """
        terms = tuple(predicates)
        if self.identity is not None and isinstance(unselected(self.base), OtherQuery):
            keys = set(self.identity[:-1])
            changing = [p for p in terms if not {e for e in p.walk() if isinstance(e, Column)} <= keys]
            fails = tuple(Call(BOOLEAN, "is_not_true", (p,)) for p in changing)
            deleted = Call(BOOLEAN, "or", (self.identity[-1], *fails)) if fails else self.identity[-1]
            rest = tuple(p for p in terms if p not in changing)
            return replace(replace(self, identity=None).where(rest), identity=(*self.identity[:-1], deleted))
        return replace(self, base=Select(self.base.schema, self.base, terms)) if terms else self

    def called(self, alias: str) -> Relation:
        """The same columns under a FROM item's name."""
        names = frozenset((alias.lower(),))
        return replace(self, columns=tuple(replace(c, qualifiers=names) for c in self.columns))

    def projected(self) -> Relation:
        """The same relation with computed columns moved into a projection: each is a plain column of the base."""
        if all(isinstance(c.expr, Column) for c in self.columns):
            return self
        named = [(c.name, c.expr) for c in self.columns]
        exprs = [expr for _, expr in named]
        named += [("identity", expr) for expr in self.identity or () if expr not in exprs]
        exprs = [expr for _, expr in named]
        base = Project(Schema(tuple(Field(name, e.type) for name, e in named)), self.base, tuple(exprs))
        columns = tuple(replace(c, expr=Column(c.expr.type, i)) for i, c in enumerate(self.columns))
        if self.identity is None:
            return Relation(base, columns)
        return Relation(base, columns, tuple(Column(e.type, exprs.index(e)) for e in self.identity))


def reading(base: Operator) -> Relation:
    """All columns of an operator, under its names."""
    return Relation(base, tuple(NamedColumn(f.name, Column(f.type, i)) for i, f in enumerate(base.schema.fields)))


@dataclass(frozen=True, eq=False)
class StaticRows(Operator):
    """A static table: only a join can read it."""

    table: Table

    def obstacle(self, number: int | None) -> str | None:
        return "it depends on a static table"

    @property
    def detail(self) -> str:
        return self.table.name


@dataclass(frozen=True, eq=False)
class OtherQuery(Operator):
    """The results of another query. Its plan is kept whole, so that its state is shared and not built twice."""

    plan: Operator

    def obstacle(self, number: int | None) -> str | None:
        return "it stands above another query with state"

    def times(self, inputs: Sequence[EventTimes]) -> EventTimes:
        return times(self.plan)

    @property
    def detail(self) -> str:
        return self.plan.text


@dataclass(frozen=True, eq=False)
class UndividedJoin(Binary):
    """A join whose conditions are not yet divided into keys, bounds and the rest. `at` is its offset in the text."""

    on: tuple[Expr, ...] = field(metadata=over(ALL))
    at: int
    identity: tuple[Expr, ...] | None = field(default=None, metadata=over(RIGHT))
    """What identifies a row of the right side, and last whether it is deleted; None if its rows are final."""

    def obstacle(self, number: int | None) -> str | None:
        nullable = {LEFT: ("right", "full"), RIGHT: ("left", "full")}
        if number is not None and self.how in nullable[number]:
            return f"its columns may be null after a {self.how} join"
        return None

    @property
    def detail(self) -> str:
        return f"{self.how} on {' and '.join(e.text for e in self.on)}"


@dataclass(frozen=True, eq=False)
class Ranked(Unary):
    """row_number(), rank() or dense_rank() as a column, before a condition says how many rows are wanted.

    Its rows are final when `time` is complete, or, if it is None, they replace earlier ones: then `identity` and
    `deleted` are those of the input's rows, and `deleted` is the last column, too.
    """

    partition: tuple[Expr, ...]
    order: tuple[Order, ...]
    ranking: str
    time: Expr | None
    at: int
    identity: tuple[Expr, ...] = ()
    deleted: Expr | None = None

    def below(self, column: int) -> Expr | None:
        """A condition on the partition holds for all of its rows or for none. Where rows are replaced, a row that fails
        it would not delete an earlier one below, unless it holds for both."""
        found = Column(self.schema[column].type, column)
        return found if found in self.partition and (self.time is not None or found in self.identity) else None

    def obstacle(self, number: int | None) -> str | None:
        return None if number is not None else "it depends on a rank"

    @property
    def detail(self) -> str:
        partition = ", ".join(p.text for p in self.partition)
        return f"{self.ranking} of {partition} order {', '.join(o.text for o in self.order)}"


def static_table(node: Operator) -> StaticRows | None:
    """The static table that a relation is, perhaps with conditions on it; None if it is something else."""
    node = unselected(node)
    return node if isinstance(node, StaticRows) else None


def unselected(node: Operator) -> Operator:
    """An operator without the selections above it."""
    while isinstance(node, Select):
        node = node.input
    return node

"""Pushes conditions down to where rows enter, and turns undivided joins and ranks into joins, lookups and top-n.

Only conditions that cannot raise pass a join or an aggregate: below it they would see rows which it may remove.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal as OneOf
from typing import cast

from headgate.expressions.constants import TRUE
from headgate.expressions.functions import fallible
from headgate.expressions.normalize import conjunction
from headgate.graph.event_times import instant
from headgate.graph.expressions import Call, Column, Expr, in_terms_of
from headgate.graph.operators import (
    Aggregate,
    CurrentJoin,
    CurrentTop,
    Join,
    JoinKind,
    Lookup,
    Operator,
    Project,
    Select,
    Source,
    Top,
)
from headgate.graph.types import BOOLEAN
from headgate.sql.bounds import Conditions, divide
from headgate.sql.errors import Script, SqlError
from headgate.sql.rank_limits import highest_rank
from headgate.sql.relation import OtherQuery, Ranked, StaticRows, UndividedJoin, static_table
from headgate.sql.times import times

_MOST = 2**31 - 1  # a rank is an INT
_MIRRORED_JOIN: dict[JoinKind, JoinKind] = {"inner": "inner", "right": "left", "left": "right", "full": "full"}


def substituted(expr: Expr, columns: tuple[Expr, ...]) -> Expr:
    """An expression with each column replaced by what it is computed from."""
    return expr.rewrite(lambda e: columns[e.index] if isinstance(e, Column) else None)


def selected(node: Operator, predicates: tuple[Expr, ...]) -> Operator:
    """The rows of a node for which all predicates hold, in canonical form."""
    terms = tuple(p for p in conjunction(predicates) if p != TRUE)
    return Select(node.schema, node, terms) if terms else node


@dataclass(frozen=True)
class Pushdown:
    """Rewrites a bound tree; errors carry positions in the script."""

    script: Script

    def push(self, node: Operator, predicates: tuple[Expr, ...] = ()) -> Operator:
        """The node with predicates over its output applied as far down as they may go."""
        if isinstance(node, Select):
            return self.push(node.input, (*node.predicates, *predicates))
        if isinstance(node, UndividedJoin):
            return self._pair(node, predicates)
        if isinstance(node, Ranked):
            return self._ranked(node, predicates)
        moved = {p: below for p in predicates if (below := _below(node, p)) is not None}
        inputs = tuple(self.push(each, tuple(moved.values())) for each in node.inputs)
        above = tuple(p for p in predicates if p not in moved)
        return _above(node.with_inputs(inputs), above)

    # -- ranks

    def _ranked(self, node: Ranked, predicates: tuple[Expr, ...]) -> Operator:
        rank = len(node.input.schema)
        count: int | None = None
        below: list[Expr] = []
        above: list[Expr] = []
        for p in conjunction(predicates):
            most, exact = highest_rank(p, rank)
            if most is not None:
                count = most if count is None else min(count, most)
                if not exact:
                    above.append(p)
            elif (moved := _below(node, p)) is not None:
                below.append(moved)
            else:
                above.append(p)
        if count is None:
            known = f"without a condition on it {node.ranking}()"
            if any(rank in p.columns for p in predicates):
                known = f"the condition on {node.ranking}() does not say how many rows are wanted, so it"
            raise self.script.error(f"{known} keeps every row; add WHERE rank <= n in the outer SELECT", node.at)
        given = self.push(node.input, tuple(below))
        ranking = cast(OneOf["row_number", "rank", "dense_rank"], node.ranking)
        first = (node.partition, node.order, min(max(count, 0), _MOST), ranking)
        if node.time is not None:
            return selected(Top(node.schema, given, *first, node.time), tuple(above))
        assert node.deleted is not None
        return _above(CurrentTop(node.schema, given, *first, node.identity, node.deleted), tuple(above))

    # -- joins

    def _pair(self, node: UndividedJoin, predicates: tuple[Expr, ...]) -> Operator:
        tables = [_table(side) for side in node.inputs]
        for side, table in zip(node.inputs, tables, strict=True):
            if table is None and _holds_table(side):
                message = "a static table is joined as it is, or with conditions; compute its columns after the join"
                raise self._error(message, node)
        if tables[0] is not None and tables[1] is not None:
            raise self._error("both sides are static tables; a continuous query needs a stream", node)
        if tables[1] is not None:
            return self._lookup(node, predicates)
        if tables[0] is not None:
            return self._mirrored(node, predicates)
        if node.identity is not None:
            return self._with_current(node, predicates, *node.identity)
        return self._join(node, predicates)

    def _join(self, node: UndividedJoin, predicates: tuple[Expr, ...]) -> Operator:
        width = len(node.left.schema)
        above: tuple[Expr, ...] = predicates
        terms = node.on
        if node.how == "inner":
            # A condition that may raise becomes one of the join: it is computed last, on pairs that match.
            terms, above = (*terms, *predicates), ()
        found = divide(terms, width, times(node.left), times(node.right))
        if found.bound is None:
            raise self._error(self._unbounded(node), node)
        left, right, rest, above = self._sides(node, found, above)
        return selected(
            Join(
                node.schema,
                self.push(node.left, left),
                self.push(node.right, right),
                node.how,
                tuple(found.left_keys),
                tuple(found.right_keys),
                found.bound,
                conjunction(rest),
            ),
            above,
        )

    def _sides(
        self, node: UndividedJoin, found: Conditions, predicates: tuple[Expr, ...]
    ) -> tuple[tuple[Expr, ...], tuple[Expr, ...], list[Expr], tuple[Expr, ...]]:
        """The conditions for the left side, for the right side, for the join itself, and for the rows above it."""
        width = len(node.left.schema)
        how = node.how
        left: list[Expr] = []
        right: list[Expr] = []
        rest = list(found.rest)
        for term in found.left_only:
            (left if how in ("inner", "semi", "right") and not fallible(term) else rest).append(term)
        for term in found.right_only:
            if how in ("inner", "semi", "left", "anti") and not fallible(term):
                right.append(term)
            else:
                rest.append(term.shifted(width))
        above: list[Expr] = []
        for p in predicates:
            if how in ("left", "semi", "anti") and p.columns and max(p.columns) < width and not fallible(p):
                left.append(p)
            elif how == "right" and p.columns and min(p.columns) >= width and not fallible(p):
                right.append(p.shifted(-width))
            else:
                above.append(p)
        return tuple(left), tuple(right), rest, tuple(above)

    def _unbounded(self, node: UndividedJoin) -> str:
        if not times(node.left) or not times(node.right):
            which = "left" if not times(node.left) else "right"
            return (
                f"the {which} side of this join has no event time, so its rows would be kept forever; "
                "declare a WATERMARK for its stream"
            )
        return (
            "this join is not bounded in time, so its rows would be kept forever; add a condition such as "
            "b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECONDS, or join on equal windows"
        )

    def _with_current(self, node: UndividedJoin, predicates: tuple[Expr, ...], *hidden: Expr) -> Operator:
        """A join with current rows. No condition goes below to the right side: a row that fails it would not delete an
        earlier one."""
        *identity, deleted = hidden
        width = len(node.left.schema)
        known = times(node.left)
        columns = [Column(node.left.schema[i].type, i) for i in sorted(known)]
        moments = [moment for column in columns if (moment := instant(column, known)) is not None]
        if not moments:
            message = (
                "the stream's side of this join has no event time, so no row of it would ever be complete; "
                "declare a WATERMARK for its stream, and select its column"
            )
            raise self._error(message, node)
        for source in _sources(node.right):
            if source.time is None:
                message = (
                    f"the rows to join with come from stream {source.stream}, which has no watermark, so nobody knows "
                    "which of them are current at the time of a row; declare WATERMARK FOR column AS column - INTERVAL "
                    "10 SECONDS in its CREATE STREAM"
                )
                raise self._error(message, node)
        found, below, rest, above = self._kept_left(node, node.on, predicates)
        keys: list[tuple[Expr, Expr]] = []
        for left, right in zip(found.left_keys, found.right_keys, strict=True):
            if right.columns and in_terms_of(right, identity, identity) is not None:
                keys.append((left, right))
            else:
                rest.append(Call(BOOLEAN, "eq", (left, right.shifted(width))))
        join = CurrentJoin(
            node.schema,
            self.push(node.left, below),
            self.push(node.right),
            node.how,
            moments[0],
            tuple(left for left, _ in keys),
            tuple(right for _, right in keys),
            tuple(identity),
            deleted,
            conjunction(rest),
        )
        return selected(join, above)

    def _lookup(self, node: UndividedJoin, predicates: tuple[Expr, ...]) -> Operator:
        table, own = cast(tuple[StaticRows, tuple[Expr, ...]], _table(node.right))
        if node.how in ("right", "full"):
            message = (
                f"a {node.how} join would need all rows of table {table.table.name} without a match, which are never "
                "known before the stream ends; keep the stream's side with LEFT JOIN"
            )
            raise self._error(message, node)
        width = len(node.left.schema)
        terms = (*node.on, *(p.shifted(width) for p in own))
        found, below, rest, above = self._kept_left(node, terms, predicates)
        lookup = Lookup(
            node.schema,
            self.push(node.left, below),
            table.table.name,
            table.table.schema,
            node.how,
            tuple(found.left_keys),
            tuple(found.right_keys),
            conjunction(rest),
        )
        return selected(lookup, above)

    def _kept_left(
        self, node: UndividedJoin, terms: tuple[Expr, ...], predicates: tuple[Expr, ...]
    ) -> tuple[Conditions, tuple[Expr, ...], list[Expr], tuple[Expr, ...]]:
        """The conditions of a join that none may pass to the right: divided, those for the left side, those for the
        join itself, and those for the rows above it."""
        width = len(node.left.schema)
        above = predicates
        if node.how == "inner":
            terms, above = (*terms, *predicates), ()
        found = divide(terms, width, {}, {})
        rest = [*found.rest, *(term.shifted(width) for term in found.right_only)]
        below: list[Expr] = []
        for term in found.left_only:
            (below if node.how in ("inner", "semi") and not fallible(term) else rest).append(term)
        of_left = [p for p in above if p.columns and max(p.columns) < width and not fallible(p)]
        return found, (*below, *of_left), rest, tuple(p for p in above if p not in of_left)

    def _mirrored(self, node: UndividedJoin, predicates: tuple[Expr, ...]) -> Operator:
        """The table is on the left: exchanges the sides, and restores the order of the columns."""
        if node.how in ("semi", "anti"):
            raise self._error(f"a {node.how} join keeps the left side, and that is a static table", node)
        how = _MIRRORED_JOIN[node.how]
        if how in ("right", "full"):
            name = cast(tuple[StaticRows, object], _table(node.left))[0].table.name
            message = (
                f"this join would need all rows of table {name} without a match, which are never known before the "
                "stream ends; keep the stream's side with RIGHT JOIN"
            )
            raise self._error(message, node)
        left, right = len(node.left.schema), len(node.right.schema)
        there = {i: i + right for i in range(left)} | {left + i: i for i in range(right)}
        schema = replace(node.schema, fields=node.schema.fields[left:] + node.schema.fields[:left])
        exchanged = UndividedJoin(schema, node.right, node.left, how, tuple(e.moved(there) for e in node.on), node.at)
        looked = self._lookup(exchanged, tuple(p.moved(there) for p in predicates))
        back = tuple(Column(node.schema[i].type, there[i]) for i in range(left + right))
        return Project(node.schema, looked, back)

    def _error(self, message: str, node: UndividedJoin) -> SqlError:
        return self.script.error(message, node.at)


def _sources(node: Operator) -> Iterator[Source]:
    """The streams below an operator, also those of other queries that it reads."""
    for each in node.walk():
        if isinstance(each, OtherQuery):
            yield from _sources(each.plan)
        elif isinstance(each, Source):
            yield each


def _table(node: Operator) -> tuple[StaticRows, tuple[Expr, ...]] | None:
    """A static table and the conditions on it, or None."""
    table = static_table(node)
    if table is None:
        return None
    conditions: tuple[Expr, ...] = ()
    while isinstance(node, Select):
        conditions = (*node.predicates, *conditions)
        node = node.input
    return table, conditions


def _holds_table(node: Operator) -> bool:
    """Whether a side is a static table with more than conditions on it."""
    while isinstance(node, (Select, Project)):
        node = node.input
    return isinstance(node, StaticRows)


def _below(node: Operator, predicate: Expr) -> Expr | None:
    """A condition on an operator's output over its inputs, if it may be applied to them instead; else None."""
    if node.strict and (not predicate.columns or fallible(predicate)):
        return None
    columns = {i: node.below(i) for i in predicate.columns}
    if None in columns.values():
        return None
    return predicate.rewrite(lambda e: columns[e.index] if isinstance(e, Column) else None)


def _above(node: Operator, predicates: tuple[Expr, ...]) -> Operator:
    """The operator with conditions on its output."""
    updates = isinstance(node, CurrentTop) or (isinstance(node, Aggregate) and node.window is None)
    if not (predicates and updates and isinstance(node, (Aggregate, CurrentTop))):
        return selected(node, predicates)
    # These rows are replaced later: a condition on them decides whether they exist.
    terms = conjunction(predicates if node.having is None else (node.having, *predicates))
    return replace(node, having=terms[0] if len(terms) == 1 else Call(BOOLEAN, "and", terms))

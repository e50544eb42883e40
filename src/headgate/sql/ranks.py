"""Binds the rank of a SELECT: row_number(), rank() or dense_rank() OVER …, or ORDER BY … LIMIT of rows that change."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.graph import types as t
from headgate.graph.event_times import instant
from headgate.graph.expressions import Call, Column, Expr, Literal
from headgate.graph.operators import Order
from headgate.graph.types import Field, Schema
from headgate.sql.dialect import start
from headgate.sql.expressions import ExpressionBinder
from headgate.sql.grouping import position
from headgate.sql.relation import Ranked, Relation
from headgate.sql.times import times

_RANKINGS = ("row_number", "rank", "dense_rank")
_RANK = -1  # placeholder of the rank until its position is known


class RankBinder:
    """Binds the one rank that a SELECT may have."""

    def __init__(self, binder: ExpressionBinder) -> None:
        self._binder = binder
        self._node: exp.Expr | None = None
        self._ranking = ""
        self._partition: list[Expr] = []
        self._order: list[Order] = []
        self._limit: int | None = None

    @property
    def node(self) -> exp.Expr | None:
        """Where the rank stands; None if there is none."""
        return self._node

    @property
    def exprs(self) -> list[Expr]:
        """The expressions of PARTITION BY and ORDER BY."""
        return [*self._partition, *(term.expr for term in self._order)]

    def ranking(self, node: exp.Window) -> Expr:
        """A call of a ranking function; equal ones are one."""
        binder = self._binder
        call = node.this
        name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
        if name not in _RANKINGS:
            message = (
                "only row_number, rank and dense_rank may stand before OVER; group by a window for other aggregates"
            )
            raise binder.error(message, node)
        if self._node is not None:
            if self._node == node:
                return Column(t.INT, _RANK)
            raise binder.error("a SELECT takes one rank; compute the other in another subquery", node)
        if node.args.get("spec") is not None:
            raise binder.error("ROWS and RANGE mean nothing for a rank; remove them", node)
        if node.args.get("alias") is not None or call.expressions:
            raise binder.error(f"write {name}() OVER (PARTITION BY … ORDER BY …)", node)
        order = node.args.get("order")
        if order is None:
            raise binder.error(f"{name}() needs ORDER BY in OVER (…)", node)
        self._partition = [self._compared(p, "PARTITION BY") for p in node.args.get("partition_by") or ()]
        self._order = [_term(self._compared(term.this, "ORDER BY"), term) for term in order.expressions]
        self._node, self._ranking = node, name
        return Column(t.INT, _RANK)

    def limit(self, select: exp.Select, items: list[tuple[str, Expr, exp.Expr]]) -> None:
        """ORDER BY … LIMIT n: the rows with a row_number of at most n."""
        binder = self._binder
        order, limit = select.args["order"], select.args["limit"]
        if self._node is not None:
            raise binder.error("a SELECT takes one rank; compute the other in another subquery", order)
        count = limit.expression
        digits = count.this if isinstance(count, exp.Literal) and not count.is_string else ""
        if not digits.isdigit() or int(digits) >= 2**31:
            raise binder.error("LIMIT takes a number of rows, such as LIMIT 10", limit)
        binder.clause = "ORDER BY"
        binder.scope.aliases_first = True
        for term in order.expressions:
            place = position(term.this)
            if place is None:
                expr = self._compared(term.this, "ORDER BY")
            elif 1 <= place <= len(items):
                expr = items[place - 1][1]
            else:
                columns = f"{len(items)} column{'' if len(items) == 1 else 's'}"
                raise binder.error(f"ORDER BY {place}: the SELECT list has {columns}", term)
            self._order.append(_term(expr, term))
        self._node, self._ranking, self._limit = order, "row_number", int(count.this)

    def _compared(self, node: exp.Expr, clause: str) -> Expr:
        bound = self._binder.bind(node)
        if not t.is_key(bound.type):
            message = f"{clause} cannot compare values of {t.sql_name(bound.type)}; name one of its elements"
            raise self._binder.error(message, node)
        return bound

    def applied(self, relation: Relation, exprs: list[Expr], count: int) -> tuple[Relation, list[Expr]]:
        """Adds the rank to the rows; `exprs` are the list's, then those of PARTITION BY and ORDER BY."""
        node, name = self._node, self._ranking
        if node is None:
            return relation, exprs
        partition = tuple(exprs[count : count + len(self._partition)])
        terms = exprs[count + len(self._partition) :]
        order = tuple(replace(term, expr=expr) for term, expr in zip(self._order, terms, strict=True))
        base = relation.base
        rank = Column(t.INT, len(base.schema))
        fields = [*base.schema.fields, Field(name, t.INT, False)]
        if relation.identity is not None:
            *identity, deleted = relation.identity
            schema = Schema((*fields, Field("deleted", t.BOOLEAN, False)))
            own = (partition, order, name, None, start(node), tuple(identity), deleted)
            kept = (*identity, Column(t.BOOLEAN, len(fields)))
            relation = replace(relation, base=Ranked(schema, base, *own), identity=kept)
        else:
            known = times(base)
            moments = [m for m in (instant(p, known) for p in partition) if m is not None]
            if not moments:
                message = (
                    f"{name}() needs a window or the event time in PARTITION BY; else no partition is ever complete"
                )
                raise self._binder.error(message, node)
            ranked = Ranked(Schema(tuple(fields)), base, partition, order, name, moments[0], start(node))
            relation = replace(relation, base=ranked)
        if self._limit is not None:
            relation = relation.where((Call(t.BOOLEAN, "le", (rank, Literal(t.INT, self._limit))),))
        placed = [e.rewrite(lambda x: rank if isinstance(x, Column) and x.index == _RANK else None) for e in exprs]
        return relation, placed[:count]


def _term(expr: Expr, node: exp.Expr) -> Order:
    return Order(expr, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))

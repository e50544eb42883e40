"""Binds FROM: streams, tables, other queries, subqueries and joins to one relation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from headgate.graph.expressions import Column, Expr, Foreign
from headgate.graph.operators import JoinKind, Operator, Project, Select, Source, concat
from headgate.graph.queries import Query, Stream
from headgate.sql.context import Context
from headgate.sql.dialect import start
from headgate.sql.errors import Script, SqlError, closest
from headgate.sql.expressions import ExpressionBinder
from headgate.sql.foreign import Catalyst
from headgate.sql.relation import NamedColumn, OtherQuery, Relation, StaticRows, UndividedJoin, reading, static_table
from headgate.sql.scope import Scope
from headgate.sql.windows import check_scalar

_SIDES: dict[tuple[str, str], JoinKind] = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "inner",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi",
    ("", "SEMI"): "semi",
    ("LEFT", "ANTI"): "anti",
    ("", "ANTI"): "anti",
}
_CURRENT = "would also need the rows that no row of the stream meets, which change until the stream ends"
_TABLE_CLAUSES = {
    "pivots": "PIVOT is not supported; write CASE expressions inside aggregates",
    "laterals": "LATERAL VIEW is not supported; compute the rows before they enter the stream",
    "sample": "TABLESAMPLE is not supported; filter on a column, for example WHERE id % 10 = 0",
    "hints": "table hints are not supported; remove them",
    "version": "time travel is not supported; a stream has no versions",
    "when": "time travel is not supported; a stream has no versions",
}


def stream_source(stream: Stream) -> Source:
    """The operator that brings a stream's rows."""
    return Source(stream.schema, stream.name, stream.time, stream.delay)


class SourceBinder:
    """Binds what FROM names. `query` binds a subquery; `ctes` are the names that WITH has given."""

    def __init__(
        self,
        context: Context,
        script: Script,
        query: Callable[[exp.Expr, dict[str, Relation]], Relation],
        ctes: dict[str, Relation],
    ) -> None:
        self.context = context
        self.script = script
        self._query = query
        self._ctes = ctes

    def bind(self, select: exp.Select) -> Relation:
        """The relation that a SELECT reads."""
        from_ = select.args.get("from_")
        if from_ is None:
            raise self.error("a continuous query needs FROM and a stream", select)
        relation = self._item(from_.this)
        for join in select.args.get("joins") or ():
            relation = self._join(relation, join)
        return relation

    def error(self, message: str, node: exp.Expr | int) -> SqlError:
        return self.script.error(message, node if isinstance(node, int) else start(node))

    # -- one item

    def _item(self, node: exp.Expr) -> Relation:
        for clause, message in _TABLE_CLAUSES.items():
            inside = node.args.get(clause)
            if inside:
                raise self.error(message, inside[0] if isinstance(inside, list) else inside)
        if isinstance(node, exp.Table):
            relation = self._named(node)
        elif isinstance(node, exp.Subquery):
            relation = self._query(node.this, self._ctes) if isinstance(node.this, exp.Query) else self._item(node.this)
            if node.args.get("with_") is not None:
                raise self.error("write WITH inside the parentheses", node)
        elif isinstance(node, exp.Paren):
            return self._item(node.this)
        elif isinstance(node, (exp.Lateral, exp.Unnest)):
            raise self.error(_TABLE_CLAUSES["laterals"], node)
        elif isinstance(node, exp.Values):
            raise self.error("VALUES is not supported in FROM; declare a table", node)
        else:
            raise self.error("FROM takes streams, tables, queries and subqueries", node)
        for join in node.args.get("joins") or ():
            relation = self._join(relation, join)
        return self._aliased(relation, node)

    def _aliased(self, relation: Relation, node: exp.Expr) -> Relation:
        alias = node.args.get("alias")
        if not isinstance(alias, exp.TableAlias):
            return relation
        columns = alias.args.get("columns") or []
        if columns:
            if len(columns) != len(relation.columns):
                message = f"{len(columns)} column names are given for {len(relation.columns)} columns"
                raise self.error(message, columns[0])
            renamed = zip(relation.columns, columns, strict=True)
            relation = replace(relation, columns=tuple(replace(c, name=n.name) for c, n in renamed))
        return relation.called(alias.name) if alias.name else relation

    def _named(self, node: exp.Table) -> Relation:
        if node.args.get("db") is not None:
            message = f"{node.sql(dialect='spark')}: names have no schema here; write the name of a stream or query"
            raise self.error(message, node)
        if not isinstance(node.this, exp.Identifier):
            raise self.error("a table function is not supported in FROM; declare a stream", node)
        name = node.name
        if name.lower() in self._ctes:
            return self._ctes[name.lower()].called(name)
        return self.named(name, start(node)).called(name)

    def named(self, name: str, at: int) -> Relation:
        """The relation that a declared name stands for."""
        context = self.context
        if name in context.streams:
            return reading(stream_source(context.streams[name]))
        if name in context.tables:
            table = context.tables[name]
            return reading(StaticRows(table.schema, table))
        if name in context.branches:
            return self._branch(name)
        if name in context.queries:
            return self._other(context.queries[name])
        known = [*context.readable, *self._ctes]
        raise self.error(f"unknown stream {name}{closest(name, known)}", at)

    def _branch(self, name: str) -> Relation:
        branch = self.context.branches[name]
        base = Select(branch.plan.schema, branch.plan, (branch.condition,))
        relation = reading(base)
        return replace(relation, columns=relation.columns[:-1])  # the route is not the user's column

    def _other(self, query: Query) -> Relation:
        columns = tuple(NamedColumn(f.name, Column(f.type, i)) for i, f in enumerate(query.schema.fields))
        if query.mode == "update":
            # What identifies a row and whether it is deleted stand behind the visible columns.
            hidden = range(query.visible, len(query.plan.schema))
            identity = tuple(Column(query.plan.schema[i].type, _first_equal(query.plan, i)) for i in hidden)
            return Relation(OtherQuery(query.plan.schema, query.plan), columns, identity)
        return Relation(inlined(query.plan) or OtherQuery(query.schema, query.plan), columns)

    # -- joins

    def _join(self, left: Relation, node: exp.Join) -> Relation:
        if node.args.get("method") or node.args.get("global_"):
            word = str(node.args.get("method") or "GLOBAL").upper()
            raise self.error(f"{word} JOIN is not supported; write JOIN … ON …", node)
        if isinstance(node.this, exp.Lateral) or node.args.get("expressions"):
            raise self.error(_TABLE_CLAUSES["laterals"], node)
        sides = (str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper())
        how = _SIDES.get(sides)
        if how is None:
            raise self.error(f"{' '.join(s for s in sides if s)} JOIN is not supported", node)
        right = self._item(node.this)
        self._check_items(left, right, node)
        if left.identity is not None or right.identity is not None:
            return self._with_current(left, right, how, node)
        if how in ("left", "full"):
            right = right.projected()
        if how in ("right", "full"):
            left = left.projected()
        return self._paired(left, right, how, node)

    def _with_current(self, left: Relation, right: Relation, how: JoinKind, node: exp.Join) -> Relation:
        """A join of a stream with the current rows of a query that updates."""
        if left.identity is not None and right.identity is not None:
            message = (
                "both sides of this join replace their rows later; join a stream with one of them, or write one to a"
                " file or a database and join with CREATE TABLE … REFRESH EVERY"
            )
            raise self.error(message, node)
        if static_table(left.base) is not None or static_table(right.base) is not None:
            message = (
                "a static table cannot be joined with rows that are replaced later; join it with the stream below,"
                " and group by its columns"
            )
            raise self.error(message, node)
        if right.identity is not None:
            if how in ("right", "full"):
                raise self.error(f"a {how} join {_CURRENT}; keep the stream's side with LEFT JOIN", node)
            return self._paired(left, right.projected() if how == "left" else right, how, node)
        if how not in ("inner", "right"):
            if how in ("semi", "anti"):
                kept = f"LEFT {how.upper()} JOIN keeps the left side, whose rows are replaced later"
                raise self.error(f"{kept}; put the stream on the left", node)
            raise self.error(f"a {how} join {_CURRENT}; keep the stream's side with RIGHT JOIN", node)
        made = self._paired(
            right, left.projected() if how == "right" else left, "left" if how == "right" else how, node
        )
        own = {name for column in left.columns for name in column.qualifiers}
        return replace(made, columns=tuple(sorted(made.columns, key=lambda column: not column.qualifiers & own)))

    def _check_items(self, left: Relation, right: Relation, node: exp.Join) -> None:
        taken = {q for c in left.columns for q in c.qualifiers} & {q for c in right.columns for q in c.qualifiers}
        if taken:
            name = min(taken)
            raise self.error(f"{name} is joined twice; give one an alias, as in {name} AS other", node)

    def _paired(self, left: Relation, right: Relation, how: JoinKind, node: exp.Join) -> Relation:
        width = len(left.base.schema)
        moved = tuple(replace(c, expr=c.expr.shifted(width)) for c in right.columns)
        schema = concat(left.base.schema, right.base.schema)
        both = Relation(UndividedJoin(schema, left.base, right.base, "inner", (), start(node)), (*left.columns, *moved))
        columns = both.columns
        on: tuple[Expr, ...] = ()
        if node.args.get("using"):
            on, columns = self._using(left, moved, how, node)
        elif node.args.get("on") is not None:
            binder = ExpressionBinder(self.context, self.script, Scope(both))
            binder.clause = "ON"
            on = binder.conditions(node.args["on"])
            for condition in on:
                check_scalar(binder, condition, node.args["on"])
        if how in ("semi", "anti"):
            base = UndividedJoin(left.base.schema, left.base, right.base, how, on, start(node), right.identity)
            return Relation(base, left.columns)
        return Relation(UndividedJoin(schema, left.base, right.base, how, on, start(node), right.identity), columns)

    def _using(
        self, left: Relation, moved: tuple[NamedColumn, ...], how: JoinKind, node: exp.Join
    ) -> tuple[tuple[Expr, ...], tuple[NamedColumn, ...]]:
        """USING (k): equal keys, and one column for both."""
        first: list[NamedColumn] = []
        hidden: set[NamedColumn] = set()
        on: list[Expr] = []
        both = Relation(left.base, (*left.columns, *moved))
        binder = ExpressionBinder(self.context, self.script, Scope(both))
        for key in node.args["using"]:
            sides = []
            for columns in (left.columns, moved):
                found = [c for c in columns if c.name.lower() == key.name.lower()]
                if len(found) != 1:
                    known = [c.name for c in columns]
                    reason = "is ambiguous" if found else f"is not on both sides{closest(key.name, known)}"
                    raise self.error(f"column {key.name} of USING {reason}", key)
                sides.append(found[0])
            a, b = sides
            on.append(binder.apply("eq", [a.expr, b.expr], key, [start(key)] * 2))
            expr = b.expr if how == "right" else a.expr
            if how == "full":
                expr = binder.apply("coalesce", [a.expr, b.expr], key, [start(key)] * 2)
            first.append(NamedColumn(a.name, expr, a.qualifiers | b.qualifiers))
            hidden.update((a, b))
        rest = tuple(c for c in (*left.columns, *moved) if c not in hidden)
        return tuple(on), (*first, *rest)


def _first_equal(plan: Operator, place: int) -> int:
    """The first column that has the same value as a column: what identifies a row may be visible, too."""
    return plan.exprs.index(plan.exprs[place]) if isinstance(plan, Project) else place


def inlined(plan: Operator) -> Operator | None:
    """Another query's plan as part of this one, if it only selects and projects a stream; else None.

    What Catalyst computes for it may then be needed above a join, so it is bound anew.
    """
    match plan:
        case Source():
            return plan
        case Select() | Project():
            below = inlined(plan.input)
            if below is None:
                return None
            source = below
            while isinstance(source, (Select, Project)):
                source = source.input

            def bound(expr: Expr) -> Expr:
                return expr.rewrite(lambda e: _rebound(e, source) if isinstance(e, Foreign) else None)

            if isinstance(plan, Select):
                return replace(plan, input=below, predicates=tuple(bound(p) for p in plan.predicates))
            return replace(plan, input=below, exprs=tuple(bound(e) for e in plan.exprs))
    return None


def _rebound(foreign: Foreign, source: Operator) -> Expr:
    columns = tuple(Column(source.schema[i].type, i) for i in sorted(foreign.reads))
    return Catalyst(foreign.type, foreign.sql, columns)

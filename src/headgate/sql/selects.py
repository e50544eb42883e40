"""Binds SELECT: one block after the other, from FROM to the list of columns, and UNION between blocks."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from sqlglot import exp

from headgate.expressions import functions
from headgate.graph import types as t
from headgate.graph.event_times import instant, window_option
from headgate.graph.expressions import Call, Column, Expr
from headgate.graph.operators import Distinct, Expand, Operator, Project, Union
from headgate.graph.types import Field, Schema
from headgate.sql.context import Context
from headgate.sql.dialect import start
from headgate.sql.errors import Script, SqlError, closest
from headgate.sql.expressions import ExpressionBinder
from headgate.sql.grouping import GroupBinder
from headgate.sql.ranks import RankBinder
from headgate.sql.relation import NamedColumn, Relation, static_table
from headgate.sql.scope import Scope
from headgate.sql.sources import SourceBinder
from headgate.sql.times import times
from headgate.sql.titles import title
from headgate.sql.windows import as_window, check_scalar, find_call, is_grouping

_TOP = "keep the first rows of each window by row_number() OVER (PARTITION BY window ORDER BY …) in a subquery"
_CLAUSES = {
    "laterals": "LATERAL VIEW is not supported; compute the rows before they enter the stream",
    "qualify": "QUALIFY is not supported; filter the rank in an outer SELECT",
    "windows": "a WINDOW clause is not supported; write the window in OVER (…)",
    "sort": "SORT BY is not supported: results come when they are complete",
    "cluster": "CLUSTER BY is not supported: results come when they are complete",
    "distribute": "DISTRIBUTE BY is not supported: results come when they are complete",
    "order": f"ORDER BY is not supported: a continuous query has no end to sort at; {_TOP}",
    "limit": f"LIMIT is not supported: a continuous query has no end; {_TOP}",
    "offset": "OFFSET is not supported: a continuous query has no end",
    "hint": "hints are not supported; remove them",
    "into": "INTO stands before AS: CREATE QUERY name INTO format AS SELECT …",
    "kind": "SELECT AS STRUCT is not supported; write named_struct(…)",
    "operation_modifiers": "this modifier of SELECT is not supported",
    "locks": "FOR UPDATE is not supported",
    "sample": "TABLESAMPLE is not supported; filter on a column, for example WHERE id % 10 = 0",
    "pivots": "PIVOT is not supported; write CASE expressions inside aggregates",
    "match": "MATCH_RECOGNIZE is not supported",
    "connect": "CONNECT BY is not supported",
    "format": "FORMAT is not supported",
    "settings": "SETTINGS is not supported",
    "prewhere": "PREWHERE is not supported; write WHERE",
}


class SelectBinder:
    """Binds a query's tree to a relation."""

    def __init__(self, context: Context, script: Script) -> None:
        self.context = context
        self.script = script
        self._depth = 0

    def query(self, node: exp.Expr, ctes: dict[str, Relation] | None = None) -> Relation:
        """The relation of a SELECT, a UNION or either in parentheses."""
        self._depth += 1
        if self._depth > 60:
            raise self.error("subqueries are nested too deeply", node)
        try:
            return self._query(node, self._with(node, dict(ctes or {})))
        finally:
            self._depth -= 1

    def error(self, message: str, node: exp.Expr | int) -> SqlError:
        return self.script.error(message, node if isinstance(node, int) else start(node))

    def _query(self, node: exp.Expr, ctes: dict[str, Relation]) -> Relation:
        if isinstance(node, exp.Select):
            return _SelectBlock(self, node, ctes).bind()
        if isinstance(node, exp.Subquery):
            self._refuse_clauses(node)
            return self.query(node.this, ctes)
        if isinstance(node, exp.Union):
            return self._union(node, ctes)
        if isinstance(node, exp.SetOperation):
            word = type(node).__name__.upper()
            raise self.error(
                f"{word} is not supported; write LEFT {'ANTI' if word == 'EXCEPT' else 'SEMI'} JOIN", node.right
            )
        raise self.error("expected SELECT …", node)

    def _with(self, node: exp.Expr, ctes: dict[str, Relation]) -> dict[str, Relation]:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        if with_.args.get("recursive"):
            raise self.error("WITH RECURSIVE is not supported: a stream has no end to recur to", with_)
        own: set[str] = set()
        for cte in with_.expressions:
            name = cte.alias
            if name.lower() in own:
                raise self.error(f"{name} is defined twice in WITH", cte)
            own.add(name.lower())
            relation = self.query(cte.this, ctes)
            columns = cte.args["alias"].args.get("columns") or []
            if columns:
                if len(columns) != len(relation.columns):
                    message = f"{len(columns)} column names are given for {len(relation.columns)} columns"
                    raise self.error(message, columns[0])
                pairs = zip(relation.columns, columns, strict=True)
                relation = replace(relation, columns=tuple(replace(c, name=n.name) for c, n in pairs))
            ctes[name.lower()] = relation
        return ctes

    def _refuse_clauses(self, node: exp.Expr, allowed: Container[str] = ()) -> None:
        for clause, message in _CLAUSES.items():
            inside = node.args.get(clause)
            if inside and clause not in allowed:
                first = inside[0] if isinstance(inside, list) else inside
                # A hint is parsed on its own, so its positions are not the script's.
                placed = isinstance(first, exp.Expr) and clause != "hint"
                raise self.error(message, first if placed else node)

    def check_stream(self, relation: Relation, node: exp.Expr) -> None:
        """Refuses a static table where a stream is needed."""
        table = static_table(relation.base)
        if table is not None:
            message = f"{table.table.name} is a static table; a continuous query reads a stream and joins the table"
            raise self.error(message, node)

    # -- UNION

    def _union(self, node: exp.Union, ctes: dict[str, Relation]) -> Relation:
        self._refuse_clauses(node)
        if node.args.get("by_name"):
            raise self.error("UNION BY NAME is not supported; list the columns in order", node)
        parts = [self._part(side, ctes) for side in (node.left, node.right)]
        first, second = parts
        if len(first.columns) != len(second.columns):
            message = f"UNION of {len(first.columns)} and {len(second.columns)} columns; select as many on both sides"
            raise self.error(message, node.right)
        relation = self._united(first, second, node)
        if node.args.get("distinct"):
            return distinct(relation, self, node, "UNION without ALL")
        return relation

    def _part(self, node: exp.Expr, ctes: dict[str, Relation]) -> Relation:
        relation = self.query(node, ctes)
        self.check_stream(relation, node)
        if relation.identity is not None:
            raise self.error("UNION cannot read rows that are replaced later; group by a window there", node)
        return relation

    def _united(self, first: Relation, second: Relation, node: exp.Union) -> Relation:
        names = tuple(c.name for c in first.columns)
        types = []
        for i, (a, b) in enumerate(zip(first.columns, second.columns, strict=True)):
            try:
                types.append(functions.common_type([a.expr.type, b.expr.type]))
            except functions.WrongArguments:
                message = (
                    f"column {i + 1} ({names[i]}) is {t.sql_name(a.expr.type)} on one side of UNION and "
                    f"{t.sql_name(b.expr.type)} on the other; cast one"
                )
                raise self.error(message, node.right) from None
        schema = Schema(tuple(Field(n, type_) for n, type_ in zip(names, types, strict=True)))
        parts: tuple[Operator, ...] = ()
        for relation, side in ((first, node.left), (second, node.right)):
            binder = ExpressionBinder(self.context, self.script, Scope(relation))
            exprs = tuple(binder.cast(c.expr, type_, side) for c, type_ in zip(relation.columns, types, strict=True))
            whole = isinstance(relation.base, Union) and all(
                isinstance(e, Column) and e.index == i for i, e in enumerate(exprs)
            )
            if whole and isinstance(relation.base, Union) and len(exprs) == len(relation.base.schema):
                parts += relation.base.parts
            else:
                parts += (Project(schema, relation.base, exprs),)
        columns = tuple(NamedColumn(n, Column(type_, i)) for i, (n, type_) in enumerate(zip(names, types, strict=True)))
        return Relation(Union(schema, parts), columns)


class _SelectBlock:
    """One SELECT … FROM … WHERE … GROUP BY … HAVING."""

    def __init__(self, outer: SelectBinder, node: exp.Select, ctes: dict[str, Relation]) -> None:
        self._outer = outer
        self._node = node
        self._ctes = ctes

    def bind(self) -> Relation:
        node, outer = self._node, self._outer
        outer._refuse_clauses(node, ("order", "limit"))
        source = SourceBinder(outer.context, outer.script, outer.query, self._ctes).bind(node)
        if GroupBinder.wanted(node, outer.context) or node.args.get("distinct") is not None:
            outer.check_stream(source, node.args["from_"].this)
        self._binder = ExpressionBinder(outer.context, outer.script, Scope(source))
        self._rank = RankBinder(self._binder)
        self._limited = bool(node.args.get("order") and node.args.get("limit"))
        self._where()
        if GroupBinder.wanted(node, outer.context):
            relation = self._grouped()
        else:
            relation = self._plain()
        if node.args.get("distinct") is not None:
            if node.args["distinct"].args.get("on") is not None:
                raise outer.error("DISTINCT ON is not supported; use row_number() … = 1", node)
            return distinct(relation, outer, node)
        return relation

    def _where(self) -> None:
        where = self._node.args.get("where")
        if where is None:
            return
        binder = self._binder
        binder.clause = "WHERE"
        conditions = binder.conditions(where.this)
        for condition in conditions:
            check_scalar(binder, condition, where.this)
        binder.scope.relation = binder.scope.relation.where(conditions)

    # -- the list

    def _items(self) -> list[tuple[str, Expr, exp.Expr]]:
        """Each column of the SELECT list: its name, its expression, and its syntax tree."""
        binder = self._binder
        binder.clause = "SELECT"
        binder.ranking = self._rank.ranking
        items: list[tuple[str, Expr, exp.Expr]] = []
        for node in self._node.expressions:
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                items += self._star(node)
            elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star):
                items += self._members(binder.bind(node.this), node)
            elif isinstance(node, exp.Alias):
                bound = binder.bind(node.this)
                binder.scope.aliases.setdefault(node.alias.lower(), bound)
                items.append((node.alias, bound, node.this))
            elif isinstance(node, exp.Aliases):
                raise binder.error("give one name to one column", node)
            else:
                bound = binder.bind(node)
                items.append((title(node, binder), bound, node))
        binder.ranking = None
        return items

    def _star(self, node: exp.Expr) -> list[tuple[str, Expr, exp.Expr]]:
        scope = self._binder.scope
        columns = scope.relation.columns
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(node, exp.Column):
            name = node.args["table"].name
            if not scope.has_item(name):
                if scope.columns(None, name):
                    return self._members(self._binder.name([node.args["table"]], node), node)
                known = sorted({q for c in columns for q in c.qualifiers})
                raise self._binder.error(f"nothing in FROM is called {name}{closest(name, known)}", node)
            columns = tuple(c for c in columns if name.lower() in c.qualifiers)
        if star.args.get("replace") or star.args.get("rename"):
            raise self._binder.error("only EXCEPT may follow *", node)
        dropped = set()
        for item in star.args.get("except_") or star.args.get("except") or ():
            name = item.name
            if not any(c.name.lower() == name.lower() for c in columns):
                raise self._binder.error(f"unknown column {name}{closest(name, [c.name for c in columns])}", item)
            dropped.add(name.lower())
        return [(c.name, c.expr, node) for c in columns if c.name.lower() not in dropped]

    def _members(self, expr: Expr, node: exp.Expr) -> list[tuple[str, Expr, exp.Expr]]:
        binder = self._binder
        if not str(expr.type).startswith("struct"):
            raise binder.error(f".* takes a struct or an item of FROM, not {t.sql_name(expr.type)}", node)
        at = start(node)
        return [(f.name, binder.apply("field", [expr], node, [at], f.name), node) for f in expr.type]

    # -- without aggregates

    def _plain(self) -> Relation:
        items = self._items()
        binder = self._binder
        relation = binder.scope.relation
        self._limit(relation, items)
        exprs = [expr for _, expr, _ in items] + self._rank.exprs
        relation, exprs = self._windowed(relation, exprs)
        relation, exprs = self._rank.applied(relation, exprs, len(items))
        names = [name for name, _, _ in items]
        columns = tuple(NamedColumn(n, e) for n, e in zip(names, exprs, strict=False))
        return Relation(relation.base, columns, relation.identity)

    def _limit(self, relation: Relation, items: list[tuple[str, Expr, exp.Expr]]) -> None:
        """Takes ORDER BY … LIMIT as a rank, where rows replace earlier ones."""
        self._final(relation)
        if self._limited:
            self._rank.limit(self._node, items)

    def _final(self, relation: Relation) -> None:
        """Refuses ORDER BY and LIMIT where they do not say which of the current rows are the first."""
        node = self._node
        order, limit = node.args.get("order"), node.args.get("limit")
        if relation.identity is None or node.args.get("distinct") is not None:
            self._outer._refuse_clauses(node)
        elif order is not None and limit is None:
            message = (
                "ORDER BY needs LIMIT n: the current rows have no order of their own; sort them where you read them"
            )
            raise self._outer.error(message, order)
        elif limit is not None and order is None:
            raise self._outer.error("LIMIT needs ORDER BY, which says which of the current rows are the first", limit)

    def _windowed(self, relation: Relation, exprs: list[Expr]) -> tuple[Relation, list[Expr]]:
        """window() outside GROUP BY: each row with its window; a hopping one repeats rows. Null times have none."""
        node = self._node
        calls = [e for e in {e: None for x in exprs for e in x.walk()} if isinstance(e, Call) and is_grouping(e)]
        if not calls:
            return relation, exprs
        for call in calls:
            if call.name != "window":
                raise self._outer.error(f"{call.name} may stand in GROUP BY only", find_call(node, call.name))
        at = find_call(node, "window")
        if len(calls) > 1:
            raise self._outer.error("a SELECT takes one window", at)
        if relation.identity is not None:
            raise self._outer.error("a window needs rows that are final; group by a window below", at)
        call = calls[0]
        length, slide, _ = window_option(call)
        if length == slide:
            return relation.where((Call(t.BOOLEAN, "is_not_null", call.args),)), exprs
        base = relation.base
        schema = Schema((*base.schema.fields, Field("window", call.type)))
        column = Column(call.type, len(base.schema))
        expanded = replace(relation, base=Expand(schema, base, as_window(call)))
        return expanded, [e.rewrite(lambda x: column if x == call else None) for e in exprs]

    # -- with aggregates

    def _grouped(self) -> Relation:
        node, binder = self._node, self._binder
        group = GroupBinder(binder, node)
        group.keys()
        binder.aggregate = group.aggregate
        items = self._items()
        having_node = node.args["having"].this if node.args.get("having") is not None else None
        having: Expr | None = None
        if having_node is not None:
            binder.clause = "HAVING"
            binder.scope.aliases_first = True
            having = binder.condition(having_node)
            group.check_windows(having, having_node)
        for _, expr, at in items:
            group.check_windows(expr, at)
        if self._limited:
            self._rank.limit(node, items)
        grouped = group.build(having, having_node)
        self._final(grouped.relation)
        exprs = [group.checked(grouped, expr, at) for _, expr, at in items]
        if self._rank.node is not None:
            exprs += [group.checked(grouped, e, self._rank.node) for e in self._rank.exprs]
        relation, exprs = self._rank.applied(grouped.relation, exprs, len(items))
        columns = tuple(NamedColumn(n, e) for (n, _, _), e in zip(items, exprs, strict=False))
        return Relation(relation.base, columns, relation.identity)


def distinct(relation: Relation, outer: SelectBinder, node: exp.Expr, what: str = "DISTINCT") -> Relation:
    """Each distinct row once, remembered until the watermark passes its event time or window."""
    if relation.identity is not None:
        raise outer.error(f"{what} needs rows that are final; group by a window", node)
    known = times(relation.base)
    moments = [(c, m) for c in relation.columns if (m := instant(c.expr, known)) is not None]
    if not moments:
        message = f"{what} needs a window or the event time among its columns; without one it would remember all rows"
        raise outer.error(message, node)
    for given in relation.columns:
        if not t.is_key(given.expr.type):
            message = f"{what} cannot compare column {given.name}, which is {t.sql_name(given.expr.type)}"
            raise outer.error(f"{message}; leave it out, or select CAST({given.name} AS STRING)", node)
    projected = relation.projected()
    whole = [c.expr for c in projected.columns]
    if [e.index for e in whole if isinstance(e, Column)] != list(range(len(projected.base.schema))):
        schema = Schema(tuple(Field(c.name, c.expr.type) for c in projected.columns))
        base: Operator = Project(schema, projected.base, tuple(whole))
    else:
        base = projected.base
    place = relation.columns.index(moments[0][0])
    column = Column(base.schema[place].type, place)
    moment = instant(column, times(base))
    assert moment is not None
    columns = tuple(NamedColumn(c.name, Column(c.expr.type, i)) for i, c in enumerate(relation.columns))
    return Relation(Distinct(base.schema, base, moment), columns)

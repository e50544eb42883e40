"""Binds a SELECT and builds a query from it: its plan, its sinks, and the utility of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal as OneOf

import pyarrow as pa
from sqlglot import exp

from headgate.graph import types as t
from headgate.graph.expressions import Expr, Foreign
from headgate.graph.operators import Project, Source
from headgate.graph.options import Connectors
from headgate.graph.queries import Query, QueryClass, Sink
from headgate.graph.specs import Spec
from headgate.graph.types import Field, Schema
from headgate.sql import declare
from headgate.sql import statements as st
from headgate.sql.context import Context
from headgate.sql.dialect import parse_select, start
from headgate.sql.errors import Script, SqlError
from headgate.sql.plan import plan
from headgate.sql.relation import Relation
from headgate.sql.selects import SelectBinder

# Sinks that take any Arrow column by position: two columns may have one name, and TIME is allowed.
_BY_POSITION = frozenset(("callback", "console", "memory", "noop"))


class QueryBinder:
    """Binds queries over what is declared in a context; SqlError if one is wrong. `connectors`: see `Catalog`."""

    def __init__(self, context: Context, connectors: Connectors | None, script: Script) -> None:
        self._context = context
        self._connectors = connectors
        self._script = script

    def query(
        self,
        name: str,
        select: exp.Expr,
        cls: QueryClass,
        clauses: tuple[st.Into, ...],
        spec: Spec,
        sql: str,
    ) -> Query:
        """Binds and plans a query; `sql` is its text."""
        script, connectors = self._script, self._connectors
        sinks = declare.declare_sinks(clauses, connectors, script)
        binder = SelectBinder(self._context, script)
        relation = binder.query(select)
        binder.check_stream(relation, select)
        self._check_columns(relation, select, sinks)
        made = plan(relation, script)
        schema = Schema(tuple(Field(c.name, c.expr.type) for c in relation.columns))
        mode: OneOf["append", "update"] = "append" if relation.identity is None else "update"
        declare.check_sinks(clauses, sinks, schema, mode == "update", connectors, script)
        found = Query(name, made, schema, cls, sinks, spec, mode, sql)
        return replace(found, utilities=self.utilities(found))

    def utilities(self, query: Query) -> tuple[tuple[str, Expr], ...]:
        """The utility expression of a query's spec, bound over each of its streams that has the columns it names."""
        text = query.spec.utility
        if text is None:
            return ()
        found: list[tuple[str, Expr]] = []
        problem = ""
        for stream in dict.fromkeys(node.stream for node in query.plan.walk() if isinstance(node, Source)):
            select = Script(f"SELECT {text} AS utility FROM `{stream}`", "utility")
            try:
                relation = SelectBinder(self._context, select).query(parse_select(select))
                made = plan(relation, select)
            except SqlError as error:
                problem = error.message
                continue
            if not isinstance(made, Project) or not isinstance(made.input, Source) or len(made.exprs) != 1:
                problem = "it must be one expression over the columns of a stream"
            elif any(isinstance(part, Foreign) for part in made.exprs[0].walk()):
                problem = "it uses a function that only Catalyst computes"
            elif not (pa.types.is_boolean(made.exprs[0].type) or t.is_numeric(made.exprs[0].type)):
                problem = "it must be a number or a condition"
            else:
                found.append((stream, made.exprs[0]))
        if not found:
            raise self._script.error(f"utility '{text}' cannot be used: {problem}", 0)
        return tuple(found)

    def _check_columns(self, relation: Relation, select: exp.Expr, sinks: tuple[Sink, ...]) -> None:
        """Refuses types that a sink cannot hold, and two columns of one name.

        Only columns without an alias may share the name that Spark gives them, where no sink stores columns by name.
        """
        listed = _first_select(select).expressions
        star = any(e.find(exp.Star) for e in listed if isinstance(e, (exp.Star, exp.Column, exp.Dot)))
        own = {e.alias_or_name.lower() for e in listed if isinstance(e, (exp.Alias, exp.Column, exp.Dot))}
        by_name = [sink.format for sink in sinks if sink.format.lower() not in _BY_POSITION]
        seen: set[str] = set()
        for column in relation.columns:
            name = column.name.lower()
            if by_name and _holds_time(column.expr.type):
                message = f"{by_name[0]} cannot hold a TIME; write CAST({column.name} AS STRING)"
                raise self._script.error(message, _place(select, column.name))
            if name in seen and (star or name in own or by_name or relation.identity is not None):
                hint = "give one another name with AS"
                if star:
                    hint = f"name the columns instead of *, or join USING ({column.name})"
                raise self._script.error(f"two columns are called {column.name}; {hint}", _place(select, column.name))
            seen.add(name)


def _holds_time(type_: pa.DataType) -> bool:
    """Whether a type is TIME or has a member of type TIME."""
    return bool(type_ == t.TIME) or any(_holds_time(type_.field(i).type) for i in range(type_.num_fields))


def _first_select(select: exp.Expr) -> exp.Expr:
    """The SELECT that names the columns: the first of a UNION."""
    while isinstance(select, (exp.Subquery, exp.SetOperation)):
        select = select.this
    return select


def _place(select: exp.Expr, name: str) -> int:
    """The offset of the last column of that name in a SELECT list."""
    first = _first_select(select)
    places = [e for e in first.expressions if e.alias_or_name.lower() == name.lower()]
    return start(places[-1] if places else first)

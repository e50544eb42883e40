"""The catalog: holds what scripts declare, and executes their text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from typing import Literal as OneOf

from headgate.graph import types as t
from headgate.graph.expressions import Call, Column, Expr, Literal
from headgate.graph.operators import Operator
from headgate.graph.operators.source import INTERNAL
from headgate.graph.options import Connectors
from headgate.graph.queries import DEFAULT_CLASS, Query, QueryClass, Sink, Stream, Table
from headgate.graph.specs import Objectives, Spec
from headgate.graph.types import Field, Schema
from headgate.sql import declare, lifetimes, specs
from headgate.sql import statements as st
from headgate.sql.context import Context, Names, PythonFunction, SplitBranch, TypeOf
from headgate.sql.dialect import parse, parse_select
from headgate.sql.errors import Script, closest
from headgate.sql.expressions import ExpressionBinder
from headgate.sql.lifetimes import Known
from headgate.sql.plan import split_plan
from headgate.sql.query_binding import QueryBinder
from headgate.sql.relation import Relation, StaticRows
from headgate.sql.scope import Scope
from headgate.sql.selects import SelectBinder
from headgate.sql.sources import SourceBinder
from headgate.sql.windows import check_scalar


@dataclass(frozen=True)
class Result:
    """The effect of one statement."""

    done: OneOf["created", "dropped", "set", "altered", "paused", "resumed", "stopped"]
    kind: str
    name: str


class Catalog:
    """All declarations, by case-insensitive name. Used by one thread at a time.

    `type_of` gives the type of a Spark SQL expression over a schema; without it, functions that only Spark knows
    are refused. `connectors` declares the known sources, tables and sinks; without it, formats and options are taken as
    they are written. `clock` gives the present time (s since 1970); `known` tells whether a query has begun in an
    earlier run, so that its START AT may be in the past.
    """

    def __init__(
        self,
        type_of: TypeOf | None = None,
        time_zone: str = "UTC",
        connectors: Connectors | None = None,
        clock: Callable[[], float] = time.time,
        known: Known = lambda name, sql: False,
    ) -> None:
        self._connectors = connectors
        self._clock = clock
        self._known = known
        self._context = Context(type_of=type_of)
        self._context.classes[DEFAULT_CLASS.name] = DEFAULT_CLASS
        self._context.time_zone = declare.check_zone(time_zone, Script(time_zone, "time zone"), 0)

    # -- reading

    @property
    def streams(self) -> Names[Stream]:
        return self._context.streams

    @property
    def tables(self) -> Names[Table]:
        return self._context.tables

    @property
    def classes(self) -> Names[QueryClass]:
        return self._context.classes

    @property
    def functions(self) -> Names[PythonFunction]:
        return self._context.functions

    @property
    def queries(self) -> Names[Query]:
        return self._context.queries

    @property
    def time_zone(self) -> str:
        return self._context.time_zone

    @property
    def objectives(self) -> Objectives:
        """The weights of the metrics that matter to the whole system; empty if none are set."""
        return dict(self._context.objectives)

    # -- changes

    def execute(self, text: str, file: str = "<sql>") -> list[Result]:
        """Executes the statements of a script: all of them, or none if one is wrong (SqlError)."""
        script = Script(text, file)
        before = self._context
        self._context = before.copy()
        found: list[Result] = []
        at = 0
        try:
            for statement in parse(script):
                at = statement.at
                found.append(self._execute(statement, script))
        except BaseException as problem:
            self._context = before
            if isinstance(problem, RecursionError):
                message = "this statement is nested too deeply; divide it, and write IN (…) instead of many ORs"
                raise script.error(message, at) from None
            raise
        return found

    def mark(self) -> Context:
        """The current declarations, for `back_to`."""
        return self._context.copy()

    def back_to(self, mark: Context) -> None:
        """Undoes all changes since `mark`."""
        self._context = mark

    def add_stream(self, stream: Stream, idle: str | None = None) -> None:
        """Adds a stream that is not declared in SQL, for example a streaming DataFrame."""
        self._new_name(st.Name(stream.name, 0), "stream", Script(stream.name, "stream"))
        self._context.streams[stream.name] = declare.idle_of(idle, stream)

    def add_table(self, table: Table) -> None:
        """Adds a static table that is not declared in SQL."""
        self._new_name(st.Name(table.name, 0), "table", Script(table.name, "table"))
        self._context.tables[table.name] = table

    def query(
        self,
        name: str,
        select: str,
        cls: str | None = None,
        sinks: Iterable[Sink] = (),
        spec: Spec | Mapping[str, Any] | None = None,
        start: datetime | str | None = None,
        stop: datetime | str | None = None,
        once: bool = False,
    ) -> Query:
        """Adds a query from its SELECT alone. Positions in errors are positions in the SELECT."""
        script = Script(select, name)
        self._new_name(st.Name(name, 0), "query", script)
        rank = self._class(st.Name(cls, 0), script) if cls is not None else self._default_class
        given = tuple(_clause(sink) for sink in sinks)
        asked = specs.spec_of(spec, name)
        try:
            made = self._binder(script).query(name, parse_select(script), rank, given, asked, select)
        except RecursionError:
            raise script.error("this query is nested too deeply", 0) from None
        made = self._timed(replace(made, once=once), _moment(start), _moment(stop), script)
        self._context.queries[name] = made
        return made

    def alter_query(self, name: str, cls: str | None = None, spec: Spec | Mapping[str, Any] | None = None) -> Query:
        """Changes the class of a query, or its spec: a whole one, or the options to change (None removes one)."""
        script = Script(name, "query")
        found = self._known_query(st.Name(name, 0), script)
        lifetimes.check_alive(found, self._clock(), script, 0)
        if cls is not None:
            found = replace(found, cls=self._class(st.Name(cls, 0), script))
        if spec is not None:
            found = replace(found, spec=specs.spec_of(spec, name, found.spec))
            found = replace(found, utilities=self._binder(script).utilities(found))
        self._context.queries[found.name] = found
        return found

    def pause_query(self, name: str, keep: bool = True) -> None:
        """Pauses a query; rows that arrive meanwhile are kept or dropped."""
        self._change(name, lambda query, script: lifetimes.paused(query, keep, self._clock(), script, 0))

    def resume_query(self, name: str) -> None:
        """Ends a pause."""
        self._change(name, lambda query, script: lifetimes.resumed(query, self._clock(), script, 0))

    def stop_query(self, name: str) -> None:
        """Ends a query; it stays declared, and its results can still be read."""
        self._change(name, lambda query, script: lifetimes.stopped(query, self._clock(), script, 0))

    def put_query(self, query: Query) -> None:
        """Replaces a query by one that differs in class, spec or phase only."""
        assert query.same_results(self._context.queries[query.name])
        self._context.queries[query.name] = query

    def _change(self, name: str, change: Callable[[Query, Script], Query]) -> None:
        script = Script(name, "query")
        found = self._known_query(st.Name(name, 0), script)
        self._context.queries[found.name] = change(found, script)

    def set_objectives(self, weights: Mapping[str, Any]) -> None:
        """Sets the weights of the metrics that matter to the whole system: they add up to 1."""
        self._context.objectives = specs.objectives_of(weights)

    def drop_query(self, name: str) -> None:
        """Removes a query; KeyError if no query has this name."""
        del self._context.queries[name]

    # -- statements

    def _execute(self, statement: st.Statement, script: Script) -> Result:
        context = self._context
        match statement:
            case st.CreateClass(name=name):
                self._new_class(name, script)
                context.classes[name.text] = declare.declare_class(statement, script)
                return Result("created", "class", name.text)
            case st.CreateStream(name=name):
                self._new_name(name, "stream", script)
                context.streams[name.text] = declare.declare_stream(statement, context, self._connectors, script)
                return Result("created", "stream", name.text)
            case st.CreateTable(name=name):
                self._new_name(name, "table", script)
                context.tables[name.text] = declare.declare_table(statement, self._connectors, script)
                return Result("created", "table", name.text)
            case st.CreateFunction(name=name):
                self._new_function(name, script)
                context.functions[name.text] = declare.declare_function(statement, context, script)
                return Result("created", context.functions[name.text].kind, name.text)
            case st.CreateSplit():
                return self._split(statement, script)
            case st.CreateQuery(name=name):
                self._create_query(statement, script)
                return Result("created", "query", name.text)
            case st.DropQuery(name=name):
                return self._drop(statement, script)
            case st.AlterQuery():
                return self._alter(statement, script)
            case st.PauseQuery(name=name, keep=keep):
                query = self._known_query(name, script)
                context.queries[query.name] = lifetimes.paused(query, keep, self._clock(), script, name.at)
                return Result("paused", "query", query.name)
            case st.ResumeQuery(name=name):
                query = self._known_query(name, script)
                context.queries[query.name] = lifetimes.resumed(query, self._clock(), script, name.at)
                return Result("resumed", "query", query.name)
            case st.StopQuery(name=name):
                query = self._known_query(name, script)
                context.queries[query.name] = lifetimes.stopped(query, self._clock(), script, name.at)
                return Result("stopped", "query", query.name)
            case st.SetObjectives(options=options):
                context.objectives = specs.declare_objectives(options, script, statement.at)
                return Result("set", "objectives", ", ".join(f"{n} {w:g}" for n, w in context.objectives.items()))
            case st.SetTimeZone():
                context.time_zone = declare.check_zone(statement.zone, script, statement.zone_at)
                return Result("set", "time zone", context.time_zone)
        raise TypeError(f"no rule for {type(statement).__name__}")

    def _create_query(self, statement: st.CreateQuery, script: Script) -> None:
        name = statement.name
        self._new_name(name, "query", script)
        cls = self._class(statement.cls, script) if statement.cls is not None else self._default_class
        spec = specs.declare_spec(statement.spec, script)
        made = self._binder(script).query(name.text, statement.select, cls, statement.sinks, spec, statement.sql)
        made = self._timed(replace(made, once=statement.once), statement.start, statement.stop, script)
        self._context.queries[name.text] = made

    def _timed(self, query: Query, start: st.Moment | None, stop: st.Moment | None, script: Script) -> Query:
        return lifetimes.timed(query, start, stop, self.time_zone, self._clock(), self._known, script)

    def _binder(self, script: Script) -> QueryBinder:
        return QueryBinder(self._context, self._connectors, script)

    def _split(self, statement: st.CreateSplit, script: Script) -> Result:
        context = self._context
        name = statement.input
        relation = SourceBinder(context, script, SelectBinder(context, script).query, {}).named(name.text, name.at)
        if isinstance(relation.base, StaticRows):
            raise script.error(f"{name.text} is a static table; only a stream is split", name.at)
        relation = relation.called(name.text)
        binder = ExpressionBinder(context, script, Scope(relation))
        binder.clause = "WHEN"
        seen: set[str] = set()
        conditions: list[Expr] = []
        for i, branch in enumerate(statement.branches):
            self._new_name(branch.name, "branch", script)
            if branch.name.text.lower() in seen:
                raise script.error(f"branch {branch.name.text} is named twice", branch.name.at)
            seen.add(branch.name.text.lower())
            if branch.condition is not None:
                condition = binder.condition(branch.condition)
                check_scalar(binder, condition, branch.condition)
                conditions.append(condition)
            elif i != len(statement.branches) - 1:
                raise script.error("OTHERWISE is the last branch", branch.name.at)
        if not conditions:
            raise script.error("a split needs at least one branch with WHEN condition", statement.at)
        base = _visible(relation)
        schema = Schema((*base.schema.fields, Field("route", t.INT, False)))
        made = split_plan(base, tuple(conditions), schema, script, statement.input.at)
        route = Column(t.INT, len(schema) - 1)
        for i, branch in enumerate(statement.branches):
            test = Call(t.BOOLEAN, "eq", (route, Literal(t.INT, i)))
            context.branches[branch.name.text] = SplitBranch(branch.name.text, made, test)
        return Result("created", "split", ", ".join(b.name.text for b in statement.branches))

    def _alter(self, statement: st.AlterQuery, script: Script) -> Result:
        query = self._known_query(statement.name, script)
        lifetimes.check_alive(query, self._clock(), script, statement.name.at)
        if statement.cls is not None:
            query = replace(query, cls=self._class(statement.cls, script))
        spec = specs.without(query.spec, statement.reset, script)
        query = replace(query, spec=specs.declare_spec(statement.spec, script, spec))
        query = replace(query, utilities=self._binder(script).utilities(query))
        self._context.queries[query.name] = query
        return Result("altered", "query", query.name)

    def _drop(self, statement: st.DropQuery, script: Script) -> Result:
        name = statement.name
        if name.text in self._context.queries or not statement.if_exists:
            del self._context.queries[self._known_query(name, script).name]
        return Result("dropped", "query", name.text)

    def _known_query(self, name: st.Name, script: Script) -> Query:
        found = self._context.queries.get(name.text)
        if found is None:
            raise script.error(f"unknown query {name.text}{closest(name.text, self._context.queries)}", name.at)
        return found

    # -- names

    def _new_name(self, name: st.Name, kind: str, script: Script) -> None:
        if INTERNAL in name.text:
            raise script.error(
                f"the {kind} is called {name.text}; names have no {INTERNAL}: choose another one", name.at
            )
        taken = self._context.kind_of(name.text)
        if taken is not None:
            hint = "; DROP QUERY it first" if taken == kind == "query" else "; choose another name"
            raise script.error(f"{name.text} is a {taken} already{hint}", name.at)

    def _new_class(self, name: st.Name, script: Script) -> None:
        default = self._context.classes.get(name.text) is DEFAULT_CLASS
        if name.text in self._context.classes and not default:
            raise script.error(f"class {name.text} is declared already", name.at)

    def _new_function(self, name: st.Name, script: Script) -> None:
        from headgate.expressions import functions

        known = self._context.functions.get(name.text)
        if known is not None:
            raise script.error(f"{known.kind} {name.text} is declared already", name.at)
        lower = name.text.lower()
        if functions.canonical(lower) is not None or functions.is_aggregate(lower):
            raise script.error(f"{name.text} is a function of Spark's; choose another name", name.at)

    def _class(self, name: st.Name, script: Script) -> QueryClass:
        found = self._context.classes.get(name.text)
        if found is None:
            raise script.error(f"unknown class {name.text}{closest(name.text, self._context.classes)}", name.at)
        return found

    @property
    def _default_class(self) -> QueryClass:
        return self._context.classes[DEFAULT_CLASS.name]


def _clause(sink: Sink) -> st.Into:
    """A sink that was declared in Python, as a clause of SQL."""
    options = tuple(st.Option(st.Name(key, 0), value, 0) for key, value in sink.options.items())
    return st.Into(st.Name(sink.format, 0), options)


def _moment(time: datetime | str | None) -> st.Moment | None:
    return None if time is None else st.Moment(str(time), 0)


def _visible(relation: Relation) -> Operator:
    """A relation's columns as an operator's."""
    return relation.projected().base

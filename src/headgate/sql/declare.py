"""Checks and builds what a script declares: streams, tables, classes, functions and sinks."""

from __future__ import annotations

import re
from dataclasses import replace

from headgate.expressions.aggregates.python import aggregate_problem, state_of
from headgate.graph import types as t
from headgate.graph.expressions import PYTHON_TIME_LIMIT, Column
from headgate.graph.options import Connectors
from headgate.graph.queries import QueryClass, Sink, Stream, Table
from headgate.graph.types import Field, Schema
from headgate.sql import statements as st
from headgate.sql.columns import arrow_type
from headgate.sql.context import Context, PythonFunction
from headgate.sql.dialect import start
from headgate.sql.durations import spoken
from headgate.sql.errors import Script, closest
from headgate.sql.expressions import ExpressionBinder
from headgate.sql.options import check_fit, checked, unique
from headgate.sql.python_functions import import_problem, imported
from headgate.sql.relation import reading
from headgate.sql.scope import Scope
from headgate.sql.sources import stream_source
from headgate.sql.specs import positive_duration
from headgate.sql.times import linear, times


def declare_class(statement: st.CreateClass, script: Script) -> QueryClass:
    """CREATE CLASS: a priority of at least 1."""
    for option in statement.options:
        if option.key.text.lower() != "priority":
            hint = closest(option.key.text, ["priority"])
            raise script.error(f"a class has no option {option.key.text}{hint}", option.key.at)
    given = unique(statement.options, script)
    if not given:
        raise script.error(f"class {statement.name.text} needs WITH (priority = n)", statement.name.at)
    option = statement.options[0]
    if not re.fullmatch(r"\d{1,9}", option.value) or int(option.value) < 1:
        raise script.error(f"priority is {option.value}; it must be a whole number of at least 1", option.value_at)
    return QueryClass(statement.name.text, int(option.value))


def declare_stream(
    statement: st.CreateStream, context: Context, connectors: Connectors | None, script: Script
) -> Stream:
    """CREATE STREAM."""
    schema = _schema(statement.columns, "column", script)
    known = connectors.sources if connectors is not None else {}
    source, options = checked(statement.options, statement.format, known, "source", script)
    if source in known:
        check_fit(known[source], options, statement.options, statement.format, schema, script)
    stream = Stream(statement.name.text, schema, None, 0, source, options)
    if statement.watermark is not None:
        place, delay = _watermark(statement.watermark, stream, context, script)
        stream = replace(stream, time=place, delay=delay)
    return replace(stream, idle=_idle(statement.settings, stream, script))


def _idle(settings: tuple[st.Option, ...], stream: Stream, script: Script) -> int | None:
    """The WITH clause of a stream: after how many microseconds of silence it is idle."""
    unique(settings, script)
    idle: int | None = None
    for option in settings:
        if option.key.text.lower() != "idle":
            hint = closest(option.key.text, ["idle"])
            raise script.error(f"a stream has no option {option.key.text}{hint}", option.key.at)
        if stream.time is None:
            message = "idle is about the watermark, and the stream has none; write WATERMARK FOR column AS …"
            raise script.error(message, option.key.at)
        idle = positive_duration(option, script)
    return idle


def idle_of(text: str | None, stream: Stream) -> Stream:
    """A stream that is not declared in SQL, with the idle time that it is given in Python."""
    if text is None:
        return stream
    option = st.Option(st.Name("idle", 0), text, 0)
    return replace(stream, idle=_idle((option,), stream, Script("", f"stream {stream.name}")))


def _watermark(clause: st.WatermarkClause, stream: Stream, context: Context, script: Script) -> tuple[int, int]:
    """The position of the event time, and the delay in microseconds."""
    name = clause.column
    names = [f.name.lower() for f in stream.schema.fields]
    if name.text.lower() not in names:
        raise script.error(f"unknown column {name.text}{closest(name.text, stream.schema.names)}", name.at)
    place = names.index(name.text.lower())
    type_ = stream.schema[place].type
    if not t.is_time(type_):
        raise script.error(f"{name.text} is {t.sql_name(type_)}; an event time is a TIMESTAMP", name.at)
    watched = Stream(stream.name, stream.schema, place)
    relation = reading(stream_source(watched))
    bound = ExpressionBinder(context, script, Scope(relation)).bind(clause.value)
    shape = linear(bound, times(relation.base))
    at = start(clause.value)
    if shape is None or shape.time != Column(type_, place):
        raise script.error(f"a watermark is written AS {name.text} - INTERVAL 10 SECONDS", at)
    if shape.shift > 0:
        raise script.error("a watermark cannot be ahead of the event time; subtract the interval", at)
    return place, -shape.shift


def declare_table(statement: st.CreateTable, connectors: Connectors | None, script: Script) -> Table:
    """CREATE TABLE."""
    schema = _schema(statement.columns, "column", script)
    known = connectors.tables if connectors is not None else {}
    source, options = checked(statement.options, statement.format, known, "table", script)
    if source in known:
        check_fit(known[source], options, statement.options, statement.format, schema, script)
    versioned = source in known and known[source].versioned
    if statement.on_change is not None and "path" not in options and not versioned:
        raise script.error(
            f"REFRESH ON CHANGE needs the option path, whose files are watched; write REFRESH EVERY for {source}",
            statement.on_change,
        )
    every = None if statement.every is None else positive_duration(statement.every, script)
    return Table(statement.name.text, schema, source, options, every, statement.on_change is not None)


def declare_function(statement: st.CreateFunction, context: Context, script: Script) -> PythonFunction:
    """CREATE FUNCTION, CREATE AGGREGATE: the target can be imported; functions of one target have one timeout."""
    parameters = _schema(statement.parameters, "parameter", script)
    returns = arrow_type(statement.returns, script, statement.returns_at)
    aggregate = isinstance(statement, st.CreateAggregate)
    problem = import_problem(statement.target, "Class" if aggregate else "function")
    state: tuple[Field, ...] = ()
    if problem is None and aggregate:
        target = imported(statement.target)
        problem = aggregate_problem(target)
        state = () if problem is not None else state_of(target)
    if problem is not None:
        raise script.error(problem, statement.target_at)
    limit = _timeout(statement.options, "an aggregate" if aggregate else "a function", script)
    for other in context.functions.values():
        if other.target == statement.target and other.time_limit != limit:
            known = spoken(round(other.time_limit * 1e6))
            message = (
                f"{other.target} is {other.kind} {other.name} already, with a timeout of {known}; give both the same"
            )
            raise script.error(message, statement.options[0].key.at if statement.options else statement.target_at)
    return PythonFunction(statement.name.text, parameters.types, returns, statement.target, limit, state)


def _timeout(options: tuple[st.Option, ...], what: str, script: Script) -> float:
    """The WITH clause of a function: its time limit in seconds."""
    unique(options, script)
    limit = PYTHON_TIME_LIMIT
    for option in options:
        if option.key.text.lower() != "timeout":
            hint = closest(option.key.text, ["timeout"])
            raise script.error(f"{what} has no option {option.key.text}{hint}", option.key.at)
        limit = positive_duration(option, script) / 1e6
    return limit


def declare_sinks(clauses: tuple[st.Into, ...], connectors: Connectors | None, script: Script) -> tuple[Sink, ...]:
    """The INTO clauses of a query, each with options that its sink declares."""
    known = connectors.sinks if connectors is not None else {}
    return tuple(Sink(*checked(clause.options, clause.format, known, "sink", script)) for clause in clauses)


def check_sinks(
    clauses: tuple[st.Into, ...],
    sinks: tuple[Sink, ...],
    schema: Schema,
    update: bool,
    connectors: Connectors | None,
    script: Script,
) -> None:
    """Refuses sinks that cannot hold a query's columns or, if `update`, cannot replace rows that it emitted before."""
    if connectors is None:
        return
    for clause, sink in zip(clauses, sinks, strict=True):
        known = connectors.sinks.get(sink.format)
        if update and (known is None or not known.replaces_rows):
            raise script.error(_cannot_update(sink.format, connectors), clause.format.at)
        if known is not None:
            check_fit(known, sink.options, clause.options, clause.format, schema, script)


def _cannot_update(format_: str, connectors: Connectors) -> str:
    able = sorted(name for name, sink in connectors.sinks.items() if sink.replaces_rows)
    return (
        f"this query replaces rows that it put out before, and {format_} cannot replace rows; "
        f"group by a window, or put it out to {', '.join(able[:-1])} or {able[-1]}"
    )


def _schema(columns: tuple[st.ColumnDeclaration, ...], what: str, script: Script) -> Schema:
    if not columns and what == "column":
        raise script.error("at least one column is needed", 0)
    seen: set[str] = set()
    fields = []
    for column in columns:
        name = column.name.text
        if name.lower() in seen:
            raise script.error(f"{what} {name} is declared twice", column.name.at)
        seen.add(name.lower())
        fields.append(Field(name, arrow_type(column.type, script, column.type_at), column.nullable))
    return Schema(tuple(fields))


def check_zone(zone: str, script: Script, at: int) -> str:
    """The name of a time zone; SqlError if there is no such zone."""
    from zoneinfo import ZoneInfo, available_timezones

    try:
        ZoneInfo(zone)
    except (ValueError, KeyError, OSError):
        raise script.error(f"unknown time zone {zone}{closest(zone, available_timezones())}", at) from None
    return zone

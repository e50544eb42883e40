"""Parsed statements of a script: names with their offsets in the text, and syntax trees."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True)
class Name:
    """An identifier and its offset in the text."""

    text: str
    at: int


@dataclass(frozen=True)
class Option:
    """One `key value` of an OPTIONS or WITH clause; the text of a value has no quotes."""

    key: Name
    value: str
    value_at: int


@dataclass(frozen=True)
class ColumnDeclaration:
    """A column of a stream or table."""

    name: Name
    type: exp.DataType
    type_at: int
    nullable: bool


@dataclass(frozen=True)
class WatermarkClause:
    """WATERMARK FOR column AS expression."""

    column: Name
    value: exp.Expr


@dataclass(frozen=True)
class Statement:
    """One statement; `at` is the offset of its first word."""

    at: int


@dataclass(frozen=True)
class CreateClass(Statement):
    """CREATE CLASS name WITH (priority = n)."""

    name: Name
    options: tuple[Option, ...]


@dataclass(frozen=True)
class CreateStream(Statement):
    """CREATE STREAM name (columns, WATERMARK …) USING format OPTIONS (…) WITH (idle = '10 seconds')."""

    name: Name
    columns: tuple[ColumnDeclaration, ...]
    watermark: WatermarkClause | None
    format: Name
    options: tuple[Option, ...]
    settings: tuple[Option, ...] = ()


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE TABLE name (columns) USING format OPTIONS (…) REFRESH EVERY '10 minutes' REFRESH ON CHANGE.

    `every` is the duration as an option of that name, which has its offset in the text.
    """

    name: Name
    columns: tuple[ColumnDeclaration, ...]
    format: Name
    options: tuple[Option, ...]
    every: Option | None = None
    on_change: int | None = None
    """The offset of ON CHANGE."""


@dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE FUNCTION name(parameters) RETURNS type AS 'module:function' WITH (timeout = '5 seconds')."""

    name: Name
    parameters: tuple[ColumnDeclaration, ...]
    returns: exp.DataType
    returns_at: int
    target: str
    target_at: int
    options: tuple[Option, ...]


@dataclass(frozen=True)
class CreateAggregate(CreateFunction):
    """CREATE AGGREGATE name(parameters) RETURNS type AS 'module:Class' WITH (timeout = '5 seconds')."""


@dataclass(frozen=True)
class Branch:
    """One output of a split; without a condition it is OTHERWISE."""

    name: Name
    condition: exp.Expr | None


@dataclass(frozen=True)
class CreateSplit(Statement):
    """CREATE SPLIT OF input INTO name WHEN condition, …, name OTHERWISE."""

    input: Name
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class Into:
    """INTO format OPTIONS (…)."""

    format: Name
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Moment:
    """The time in START AT 'time' or STOP AT 'time', and its offset."""

    text: str
    at: int


@dataclass(frozen=True)
class CreateQuery(Statement):
    """CREATE QUERY name CLASS c START AT '…' STOP AT '…' ONCE INTO … WITH (…) AS select."""

    name: Name
    cls: Name | None
    sinks: tuple[Into, ...]
    spec: tuple[Option, ...]
    select: exp.Expr
    sql: str
    start: Moment | None = None
    stop: Moment | None = None
    once: bool = False


@dataclass(frozen=True)
class DropQuery(Statement):
    """DROP QUERY [IF EXISTS] name."""

    name: Name
    if_exists: bool


@dataclass(frozen=True)
class SetTimeZone(Statement):
    """SET TIME ZONE 'zone'."""

    zone: str
    zone_at: int


@dataclass(frozen=True)
class AlterQuery(Statement):
    """ALTER QUERY name, then SET (latency = '200 ms', …), RESET (latency, …) or SET CLASS c."""

    name: Name
    spec: tuple[Option, ...] = ()
    reset: tuple[Name, ...] = ()
    cls: Name | None = None


@dataclass(frozen=True)
class SetObjectives(Statement):
    """SET OBJECTIVES (metric = weight, …)."""

    options: tuple[Option, ...]


@dataclass(frozen=True)
class PauseQuery(Statement):
    """PAUSE QUERY name [KEEP | DROP ROWS]."""

    name: Name
    keep: bool


@dataclass(frozen=True)
class ResumeQuery(Statement):
    """RESUME QUERY name."""

    name: Name


@dataclass(frozen=True)
class StopQuery(Statement):
    """STOP QUERY name."""

    name: Name

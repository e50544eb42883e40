"""Streams, classes, static tables, sinks and queries: what a user declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

from headgate.graph.operators import Operator
from headgate.graph.types import Schema


@dataclass(frozen=True)
class Stream:
    """A named, typed, unbounded input. `time` and `delay` (microseconds) are its WATERMARK clause."""

    name: str
    schema: Schema
    time: int | None = None
    delay: int = 0
    source: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A static table for stream–static joins: any format that Spark reads.

    `refresh`: microseconds after which it is read again; `on_change`: it is read again when its files change.
    """

    name: str
    schema: Schema
    source: str
    options: Mapping[str, str] = field(default_factory=dict)
    refresh: int | None = None
    on_change: bool = False


@dataclass(frozen=True)
class QueryClass:
    """A rank of queries; a higher priority is a larger share."""

    name: str
    priority: int


DEFAULT_CLASS = QueryClass("normal", 1)


@dataclass(frozen=True)
class Sink:
    """Where results go: a format and its options."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Spec:
    """What a user asks of a query's quality: the options of its WITH clause, durations in microseconds."""

    latency: int | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class Query:
    """A named continuous SELECT. The plan's first columns are the visible ones.

    In mode update the plan's columns are: the `visible` ones, then hidden columns that identify the row
    (the group's keys), then the boolean `deleted`; a result replaces the earlier one with the same identity.
    """

    name: str
    plan: Operator
    schema: Schema
    cls: QueryClass = DEFAULT_CLASS
    sinks: tuple[Sink, ...] = ()
    spec: Spec = Spec()
    mode: OneOf["append", "update"] = "append"
    sql: str = ""

    @property
    def visible(self) -> int:
        return len(self.schema)

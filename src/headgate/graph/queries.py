"""Streams, classes, static tables, sinks and queries: what a user declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from headgate.graph.operators import Operator
from headgate.graph.specs import NO_SPEC, Spec
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
    """A static table for stream–static joins: any format that Spark reads."""

    name: str
    schema: Schema
    source: str
    options: Mapping[str, str] = field(default_factory=dict)


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
    spec: Spec = NO_SPEC
    mode: OneOf["append", "update"] = "append"
    sql: str = ""

    @property
    def visible(self) -> int:
        return len(self.schema)

    def same_results(self, other: Query) -> bool:
        """Whether the other query has the same results in the same sinks: they differ at most in class and spec."""
        return replace(self, cls=other.cls, spec=other.spec) == other

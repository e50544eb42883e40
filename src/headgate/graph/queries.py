"""Streams, classes, static tables, sinks and queries: what a user declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

from headgate.graph.expressions import Expr
from headgate.graph.operators import Operator
from headgate.graph.specs import NO_SPEC, Spec
from headgate.graph.types import Schema


@dataclass(frozen=True)
class Stream:
    """A named, typed, unbounded input. `time` and `delay` (microseconds) are its WATERMARK clause; after `idle`
    microseconds without rows it no longer holds back the watermarks of others (None: it always does, as in Spark)."""

    name: str
    schema: Schema
    time: int | None = None
    delay: int = 0
    source: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    idle: int | None = None


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


Phase = OneOf["scheduled", "running", "paused", "stopped"]
Pause = OneOf["", "keep", "drop"]


@dataclass(frozen=True)
class Query:
    """A named continuous SELECT. The plan's first columns are the visible ones.

    In mode update the plan's columns are: the `visible` ones, then hidden columns that identify the row
    (the group's keys), then the boolean `deleted`; a result replaces the earlier one with the same identity.

    - `start`, `stop`: when it begins and ends (microseconds since 1970); None: at once, never
    - `once`: it ends with its first answer (003 §1)
    - `pause`: it is paused, and the rows that arrive meanwhile are kept or dropped
    - `stopped`: it has ended; its results can still be read
    - `shed`: the share of its rows that is dropped where they enter; `utilities`: for streams that it reads, the
      expression by which rows are chosen (`Spec.utility`)
    """

    name: str
    plan: Operator
    schema: Schema
    cls: QueryClass = DEFAULT_CLASS
    sinks: tuple[Sink, ...] = ()
    spec: Spec = NO_SPEC
    mode: OneOf["append", "update"] = "append"
    sql: str = ""
    start: int | None = None
    stop: int | None = None
    once: bool = False
    pause: Pause = ""
    stopped: bool = False
    shed: float = 0.0
    utilities: tuple[tuple[str, Expr], ...] = ()
    attempt: int = 0
    """Rises when the query is dropped and declared again, or tried again after a failure: it then starts afresh."""

    @property
    def visible(self) -> int:
        return len(self.schema)

    def phase(self, now: float) -> Phase:
        """Its phase at a time (s since 1970)."""
        if self.stopped or (self.stop is not None and self.stop <= now * 1e6):
            return "stopped"
        if self.start is not None and now * 1e6 < self.start:
            return "scheduled"
        return "paused" if self.pause else "running"

    def same_question(self, other: Query) -> bool:
        """Whether the other query asks the same for the same sinks, perhaps by another plan."""
        parts = (self.name, self.sql, self.schema, self.sinks, self.mode, self.attempt)
        return bool(self.sql) and parts == (
            other.name,
            other.sql,
            other.schema,
            other.sinks,
            other.mode,
            other.attempt,
        )

    def same_results(self, other: Query) -> bool:
        """Whether the other query produces the same results for the same sinks, so that it can continue with the state
        and the results of this one, whatever their class, spec and times are."""
        parts = (self.name, self.plan, self.schema, self.sinks, self.mode)
        return parts == (other.name, other.plan, other.schema, other.sinks, other.mode)

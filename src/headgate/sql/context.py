"""The declarations that a query is bound against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from headgate.expressions import functions
from headgate.graph.expressions import Expr
from headgate.graph.operators import Operator
from headgate.graph.queries import Query, QueryClass, Stream, Table
from headgate.graph.specs import Objectives
from headgate.graph.types import Field, Schema

Value = TypeVar("Value")
TypeOf = Callable[[str, Schema], pa.DataType]


class Names(MutableMapping[str, Value], Generic[Value]):
    """A mapping with case-insensitive names, as in Spark; iteration gives the names as they were written."""

    def __init__(self, items: Mapping[str, Value] | None = None) -> None:
        self._items: dict[str, tuple[str, Value]] = {}
        for name, value in (items or {}).items():
            self[name] = value

    def __getitem__(self, name: str) -> Value:
        return self._items[name.lower()][1]

    def __setitem__(self, name: str, value: Value) -> None:
        self._items[name.lower()] = (name, value)

    def __delitem__(self, name: str) -> None:
        del self._items[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return (written for written, _ in self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._items


@dataclass(frozen=True)
class PythonFunction:
    """A function over Arrow arrays: `target` is module:function, `time_limit` is in seconds. Aggregates have state."""

    name: str
    parameters: tuple[pa.DataType, ...]
    returns: pa.DataType
    target: str
    time_limit: float
    state: tuple[Field, ...] = ()

    @property
    def kind(self) -> str:
        return "aggregate" if self.state else "function"


@dataclass(frozen=True)
class SplitBranch:
    """One output of a split: the rows of `plan` with this route."""

    name: str
    plan: Operator
    condition: Expr


@dataclass
class Context:
    """Everything declared so far, by name."""

    streams: Names[Stream] = field(default_factory=Names)
    tables: Names[Table] = field(default_factory=Names)
    classes: Names[QueryClass] = field(default_factory=Names)
    functions: Names[PythonFunction] = field(default_factory=Names)
    queries: Names[Query] = field(default_factory=Names)
    branches: Names[SplitBranch] = field(default_factory=Names)
    time_zone: str = "UTC"
    type_of: TypeOf | None = None
    objectives: Objectives = field(default_factory=dict)

    def copy(self) -> Context:
        """A copy that can be changed independently."""
        return Context(
            Names(self.streams),
            Names(self.tables),
            Names(self.classes),
            Names(self.functions),
            Names(self.queries),
            Names(self.branches),
            self.time_zone,
            self.type_of,
            self.objectives,
        )

    @property
    def readable(self) -> list[str]:
        """The names that FROM accepts."""
        return [*self.streams, *self.tables, *self.queries, *self.branches]

    def is_aggregate(self, name: str) -> bool:
        """Whether a function of this name is an aggregate, Spark's or a user's."""
        found = self.functions.get(name)
        return functions.is_aggregate(name) if found is None else bool(found.state)

    def kind_of(self, name: str) -> str | None:
        """The kind of object (stream, table, query, branch) that has this name, or None."""
        kinds = (("stream", self.streams), ("table", self.tables), ("query", self.queries), ("branch", self.branches))
        return next((kind for kind, names in kinds if name in names), None)

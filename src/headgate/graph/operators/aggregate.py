"""Groups and windows of rows, and the aggregates of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from headgate.graph.event_times import EventTime, EventTimes, time_of
from headgate.graph.expressions import PYTHON_TIME_LIMIT, Call, Column, Expr, in_terms_of
from headgate.graph.operators.operator import OUTPUT, Clause, Operator, Unary, Write, over
from headgate.graph.operators.window import Window
from headgate.graph.types import Field, Schema


@dataclass(frozen=True)
class AggregateCall(Clause):
    """One aggregate function. `where` is its FILTER clause; `option` carries constants (for example a precision).

    A user-defined aggregate has the name "python", "module:Class" as its option, and the columns of its state. As with
    functions (`Call`), `time_limit` is in seconds and not part of the identity.
    """

    name: str
    args: tuple[Expr, ...]
    type: pa.DataType
    distinct: bool = False
    where: Expr | None = None
    option: str = ""
    state: tuple[Field, ...] = ()
    time_limit: float | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        inside = ", ".join(a.text for a in self.args)
        distinct = "distinct " if self.distinct else ""
        where = f" where {self.where.text}" if self.where is not None else ""
        option = f"[{self.option}]" if self.option else ""
        state = "".join(f" {column.name}:{column.type}" for column in self.state)
        return f"{self.name}{option}({distinct}{inside}){where}:{self.type}{state}"

    @property
    def label(self) -> str:
        """The name of the function for users."""
        return self.option.rpartition(":")[2] if self.name == "python" else self.name

    def describe(self, write: Write, names: Sequence[str]) -> str:
        """The call in words, over columns of these names."""
        inside = ", ".join(write(arg, names) for arg in self.args) or "*"
        where = f" FILTER ({write(self.where, names)})" if self.where is not None else ""
        return f"{self.label}({'DISTINCT ' if self.distinct else ''}{inside}){where}"


@dataclass(frozen=True, eq=False)
class Aggregate(Unary):
    """Groups by keys inside windows. Output: the window (if by time or session) as a struct, the keys, the aggregates.

    Without a window it emits, at every watermark, the groups that changed (an update stream): the row's last column
    is then the boolean `deleted`, true for a group that was emitted and no longer passes `having`.
    """

    keys: tuple[Expr, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | None = None
    having: Expr | None = field(default=None, metadata=over(OUTPUT))

    stateful: ClassVar[bool] = True
    makes_rows: ClassVar[bool] = True
    cost: ClassVar[float] = 4e-7
    selectivity: ClassVar[float] = 0.1

    @cached_property
    def python_functions(self) -> dict[str, float]:
        own = {c.option: c.time_limit or PYTHON_TIME_LIMIT for c in self.calls if c.name == "python"}
        return {**super().python_functions, **own}

    @property
    def passes(self) -> tuple[int, ...]:
        return ()

    @property
    def by_moment(self) -> bool:
        """Whether an event time is itself a key: its window is one microsecond, and rows without a time are a group."""
        window = self.window
        if window is None or window.on is None or (window.kind, window.length, window.slide) != ("time", 1, 1):
            return False
        on = window.on
        moment = on.args[0] if isinstance(on, Call) and on.name == "window_time" else on
        return moment in self.keys

    @property
    def first_key(self) -> int:
        """The position of the first key in the output."""
        return 0 if self.window is None else 1

    @property
    def first_call(self) -> int:
        """The position of the first aggregate in the output."""
        return self.first_key + len(self.keys)

    def pruned(self, used: frozenset[int]) -> tuple[Operator, dict[int, int]]:
        first = self.first_call
        needed = used | (self.having.columns if self.having is not None else frozenset())
        kept = [i for i in range(first, first + len(self.calls)) if i in needed]
        places = {i: i for i in range(first)} | {old: first + new for new, old in enumerate(kept)}
        if self.window is None:
            places[len(self.schema) - 1] = first + len(kept)
        schema = Schema(tuple(self.schema[i] for i in sorted(places)))
        having = None if self.having is None else self.having.moved(places)
        return replace(self, schema=schema, calls=tuple(self.calls[i - first] for i in kept), having=having), places

    def below(self, column: int) -> Expr | None:
        """A condition on keys holds for all rows of a group or none; below windows of rows it would change them."""
        if self.window is not None and self.window.kind == "rows":
            return None
        return self.keys[column - self.first_key] if self.first_key <= column < self.first_call else None

    @property
    def partition_keys(self) -> tuple[tuple[Expr, ...], ...] | None:
        """Windows of rows count the rows of all groups, so they cannot be divided by key."""
        rows = self.window is not None and self.window.kind == "rows"
        return () if rows else tuple((key,) for key in self.keys)

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        keys = tuple(key for (key,) in self.partition_keys or ())
        columns = [Column(key.type, place) for place, key in enumerate(keys, self.first_key)]
        found = in_terms_of(expr, columns, keys)
        return None if found is None else (found,)

    def obstacle(self, number: int | None) -> str | None:
        return "it stands above an aggregate"

    def times(self, inputs: Sequence[EventTimes]) -> EventTimes:
        if self.window is None or self.window.kind == "rows":
            return {}
        found: EventTimes = {0: EventTime(True, self.window.length if self.window.kind == "time" else None)}
        for place, key in enumerate(self.keys, self.first_key):
            time = time_of(key, inputs[0])
            if time is not None:
                found[place] = time
        return found

    @property
    def detail(self) -> str:
        keys = ", ".join(k.text for k in self.keys)
        calls = ", ".join(c.text for c in self.calls)
        window = self.window.text if self.window is not None else ""
        having = f" having {self.having.text}" if self.having is not None else ""
        return f"{window} by {keys}: {calls}{having}"

    def describe(self, write: Write) -> str:
        names = self.input.schema.names
        text = ", ".join(call.describe(write, names) for call in self.calls) or "groups"
        if self.keys:
            text += " by " + ", ".join(self._written(self.keys, write))
        if self.window is not None:
            text += " in " + self.window.describe(write, names)
        if self.having is not None:
            text += f" having {write(self.having, self.schema.names)}"
        return text

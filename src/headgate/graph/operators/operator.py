"""The interface of operators: what the passes over a graph need to know about each of them.

An operator describes what is computed from its inputs, which are operators too; `headgate.operators` computes it.
Two operators are equal when they do the same to equal inputs, whatever their columns are called.
All times and durations are microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from headgate.graph.event_times import EventTimes
from headgate.graph.expressions import PYTHON_TIME_LIMIT, Call, Column, Expr
from headgate.graph.structural import Structural
from headgate.graph.types import Field, Schema

ColumnScope = int | str
"""The columns that an expression of an operator is over: those of an input, by its number, or one of these."""
LEFT, RIGHT = 0, 1
ALL = "all inputs"
"""The columns of all inputs, one after the other, and then those `beside` them."""
OUTPUT = "output"
TABLE = "table"

Write = Callable[[Expr, Sequence[str]], str]
"""Writes an expression over columns of these names for users."""


def over(scope: ColumnScope) -> dict[str, ColumnScope]:
    """The metadata of a field that holds expressions over other columns than those of the first input."""
    return {"over": scope}


class Clause:
    """A part of an operator, as a frozen dataclass, that may hold expressions: a window, an order …"""


@dataclass(frozen=True, eq=False)
class Operator(Structural):
    """One node. `schema` is its output: the columns of the inputs that it `passes`, then columns of its own.

    Subclasses are frozen dataclasses. Their expressions are found by type, anywhere in the fields, and are over the
    first input unless the field says otherwise (`over`). The defaults below suit any operator: no condition moves below
    it, and no expression is computed below it.
    """

    schema: Schema = field(compare=False)

    stateful: ClassVar[bool] = False
    passes_batches: ClassVar[bool] = False
    """It passes on its input's batches, perhaps with fewer rows: columns computed at the source stay with them."""
    compares_rows: ClassVar[bool] = False
    """It reads every column of its input."""
    narrows: ClassVar[bool] = True
    """Its columns may be reduced to those that one reader needs. False: it is shared with all its columns."""
    makes_rows: ClassVar[bool] = False
    """Its output shares no memory with its input."""
    cost: ClassVar[float] = 1e-7
    """Seconds per row, by order of magnitude: the scheduler's estimate until it has measured."""
    selectivity: ClassVar[float] = 1.0
    """Rows out per row in: an estimate too, until it is measured."""

    # Inputs and expressions -------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return ()

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Self:
        """The same operator over other inputs."""
        return self

    @cached_property
    def expressions(self) -> tuple[tuple[ColumnScope, Expr], ...]:
        """Its expressions, each with the columns that it is over."""
        found: list[tuple[ColumnScope, Expr]] = []

        def note(scope: ColumnScope, expr: Expr) -> Expr:
            found.append((scope, expr))
            return expr

        self.with_expressions(note)
        return tuple(found)

    def with_expressions(self, change: Callable[[ColumnScope, Expr], Expr]) -> Self:
        """The same operator with each expression replaced."""
        changed: Self = _changed(self, LEFT, change)
        return changed

    @cached_property
    def python_functions(self) -> dict[str, float]:
        """The users' functions that it runs ("module:function"), each with its time limit in seconds for one batch."""
        calls = (part for _, expr in self.expressions for part in expr.walk() if isinstance(part, Call))
        return {c.option: c.time_limit or PYTHON_TIME_LIMIT for c in calls if c.name == "python"}

    @property
    def time_limit(self) -> float | None:
        """Seconds that it may take for one batch: the lowest limit of its Python functions; None if there is none."""
        return min(self.python_functions.values(), default=None)

    def walk(self) -> Iterator[Operator]:
        """This operator and all it depends on, each once, inputs first."""
        seen: set[Operator] = set()

        def visit(node: Operator) -> Iterator[Operator]:
            if node in seen:
                return
            seen.add(node)
            for source in node.inputs:
                yield from visit(source)
            yield node

        yield from visit(self)

    # Columns ----------------------------------------------------------------------------------------------

    @property
    def passes(self) -> tuple[int, ...]:
        """The inputs whose columns it outputs unchanged, one after the other, before columns of its own."""
        return ()

    @property
    def own(self) -> tuple[Field, ...]:
        """The columns that it computes, behind those that it passes."""
        return self.schema.fields[sum(len(self.inputs[i].schema) for i in self.passes) :]

    @property
    def beside(self) -> tuple[Field, ...]:
        """The columns that expressions over `ALL` see behind those of the inputs."""
        return self.own

    def origins(self, column: int) -> tuple[tuple[int, int], ...]:
        """Where the values of an output column come from unchanged: (input, column). Empty: it is computed here."""
        for number in self.passes:
            width = len(self.inputs[number].schema)
            if column < width:
                return ((number, column),)
            column -= width
        return ()

    def reads(self, number: int) -> frozenset[int]:
        """The columns of an input that it reads for itself."""
        if self.compares_rows:
            return frozenset(range(len(self.inputs[number].schema)))
        start = sum(len(each.schema) for each in self.inputs[:number])
        stop = start + len(self.inputs[number].schema)
        found: set[int] = set()
        for scope, expr in self.expressions:
            if scope == number:
                found |= expr.columns
            elif scope == ALL:
                found |= {i - start for i in expr.columns if start <= i < stop}
        return frozenset(found)

    def pruned(self, used: frozenset[int]) -> tuple[Operator, dict[int, int]]:
        """The operator without unused columns of its own, and the new positions of the remaining columns."""
        return self, {i: i for i in range(len(self.schema))}

    # What may move below it -------------------------------------------------------------------------------

    strict: ClassVar[bool] = True
    """A condition moves below only if it names a column, and cannot raise: below, it sees more rows."""

    def below(self, column: int) -> Expr | None:
        """An output column as an expression over the inputs, if a condition on it may be applied there; else None."""
        return None

    def obstacle(self, number: int | None) -> str | None:
        """Why an expression over columns of an input cannot be computed below this operator, in the words of an error
        (`it …`); None if it can. `number` is the input, None for the operator's own columns."""
        return f"it stands above a {self.kind}"

    # How it is divided among replicas ---------------------------------------------------------------------

    @property
    def partition_keys(self) -> tuple[tuple[Expr, ...], ...] | None:
        """The keys by which its state can be divided: rows that differ in one of them never meet in it.

        A key is one expression per input, over the columns of that input, all of the same type. Empty: all rows must
        go to one replica. None: it has no state, and rows may go to any replica.
        """
        return () if self.stateful else None

    def located(self, expr: Expr) -> tuple[Expr, ...] | None:
        """Rewrites an expression over its output as one expression per input, which has the same value on all rows that
        contribute to an output row. None if that is impossible, or if its state cannot be divided by the expressions.
        """
        if self.passes != (0,) or not expr.columns or max(expr.columns) >= len(self.inputs[0].schema):
            return None
        return (expr,)

    # Time -------------------------------------------------------------------------------------------------

    @property
    def uses_event_time(self) -> bool:
        """Whether its results depend on event times or watermarks."""
        return self.stateful

    def times(self, inputs: Sequence[EventTimes]) -> EventTimes:
        """The event times among its columns, given those of its inputs."""
        found: EventTimes = {}
        for column in range(len(self.schema)):
            origins = [inputs[number].get(at) for number, at in self.origins(column)]
            if origins and origins[0] is not None and all(time == origins[0] for time in origins):
                found[column] = origins[0]
        return found

    # Text -------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Its name in explain, statistics and defaults: select, project, aggregate …"""
        return type(self).__name__.lower()

    @cached_property
    def text(self) -> str:
        """A canonical spelling that includes the inputs'; equal operators have equal texts."""
        inside = " ".join(f"({i.text})" for i in self.inputs)
        return f"{self.kind} {self.detail} {inside}".rstrip()

    @property
    def detail(self) -> str:
        """What it does, without its inputs, in canonical spelling."""
        raise NotImplementedError

    def describe(self, write: Write) -> str:
        """What it does, in one line for users, without its kind and its inputs."""
        return self.detail

    def _written(self, exprs: Iterable[Expr], write: Write) -> list[str]:
        """Expressions over the inputs' columns, for users."""
        names = [name for each in self.inputs for name in each.schema.names]
        return [write(expr, names) for expr in exprs]


@dataclass(frozen=True, eq=False)
class Unary(Operator):
    """An operator with one input, whose columns it passes on."""

    input: Operator

    @property
    def inputs(self) -> tuple[Operator, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Self:
        return replace(self, input=inputs[0])

    @property
    def passes(self) -> tuple[int, ...]:
        return (0,)


def all_columns(node: Operator) -> tuple[Expr, ...]:
    """Every column of an operator's output."""
    return tuple(Column(f.type, i) for i, f in enumerate(node.schema.fields))


def concat(*schemas: Schema) -> Schema:
    """The columns of several schemas, one after the other."""
    return Schema(tuple(f for schema in schemas for f in schema.fields))


def _changed(value: Any, scope: ColumnScope, change: Callable[[ColumnScope, Expr], Expr]) -> Any:
    """A value with each expression in it replaced; the same object if none changes."""
    if isinstance(value, Expr):
        return change(scope, value)
    if isinstance(value, tuple):
        parts = tuple(part if isinstance(part, Operator) else _changed(part, scope, change) for part in value)
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
    if not isinstance(value, (Clause, Operator)):
        return value
    changes = {}
    for each in fields(value):  # type: ignore[arg-type]
        old = getattr(value, each.name)
        new = old if isinstance(old, Operator) else _changed(old, each.metadata.get("over", scope), change)
        if new is not old:
            changes[each.name] = new
    return replace(value, **changes) if changes else value  # type: ignore[type-var]

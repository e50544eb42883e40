"""Which columns of each stream the queries need in the worker, what Catalyst computes for them, and for which rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from headgate.graph.expressions import Call, Expr, Foreign
from headgate.graph.operators import Aggregate, Operator, Select, Source, source_of
from headgate.graph.queries import Query
from headgate.graph.types import BOOLEAN


@dataclass
class RequiredColumns:
    """The columns of one stream that the worker needs: declared columns by position, computed columns by key."""

    columns: set[int] = field(default_factory=set)
    foreign: dict[str, Foreign] = field(default_factory=dict)

    def covers(self, other: RequiredColumns) -> bool:
        return other.columns <= self.columns and set(other.foreign) <= set(self.foreign)


@dataclass(frozen=True)
class ForeignUse:
    """A query's use of an expression that Catalyst computes, in one of its operators.

    Only rows for which all of `guard` hold reach the operator and, in it, the branch in which the expression stands.
    """

    query: str
    stream: str
    foreign: Foreign
    operator: str
    guard: tuple[Expr, ...]


def required_columns(queries: Iterable[Query]) -> dict[str, RequiredColumns]:
    """The required columns of every stream that some query reads."""
    found: dict[str, RequiredColumns] = {}
    for query in queries:
        _require(query.plan, frozenset(range(len(query.plan.schema))), found)
        for use in _foreign_uses(query.name, query.plan):
            found[use.stream].foreign[use.foreign.key] = use.foreign
        for stream, utility in query.utilities:
            found[stream].columns |= utility.columns
    return found


def foreign_uses(queries: Iterable[Query]) -> list[ForeignUse]:
    """All uses in these queries, each once."""
    return list({use: None for query in queries for use in _foreign_uses(query.name, query.plan)})


def _require(node: Operator, wanted: frozenset[int], found: dict[str, RequiredColumns]) -> None:
    """Requires of the inputs the columns that the operator reads, and the wanted ones of those that it passes on."""
    if isinstance(node, Source):
        mine = found.setdefault(node.stream, RequiredColumns())
        mine.columns |= wanted if node.time is None else {*wanted, node.time}
        return
    origins = {origin for column in wanted for origin in node.origins(column)}
    for number, each in enumerate(node.inputs):
        _require(each, node.reads(number) | {column for source, column in origins if source == number}, found)


def _foreign_uses(query: str, node: Operator) -> Iterator[ForeignUse]:
    source = source_of(node.inputs[0]) if node.inputs else None
    if source is not None:
        above = tuple(_conditions(node.inputs[0]))
        for expr, own in _guarded(node):
            for part, branch in _parts(expr, (*above, *own)):
                yield ForeignUse(query, source.stream, part, node.kind, branch)
    for each in node.inputs:
        yield from _foreign_uses(query, each)


def _guarded(node: Operator) -> Iterator[tuple[Expr, list[Expr]]]:
    """The expressions of an operator over its first input, each with the operator's own conditions for its rows."""
    if isinstance(node, Aggregate):
        filtered = [call for call in node.calls if call.where is not None]
        yield from ((arg, [call.where]) for call in filtered for arg in call.args if call.where is not None)
        node = replace(node, calls=tuple(replace(c, args=()) if c in filtered else c for c in node.calls))
    exprs = [expr for scope, expr in node.expressions if scope == 0]
    for expr in exprs:
        # The other conditions of the same selection guard this one: a row that fails them is dropped anyway.
        yield expr, [e for e in exprs if e is not expr] if isinstance(node, Select) else []


def _parts(expr: Expr, guard: tuple[Expr, ...]) -> Iterator[tuple[Foreign, tuple[Expr, ...]]]:
    """What Catalyst computes in an expression, each with the conditions under which its value matters."""
    if isinstance(expr, Foreign):
        yield expr, guard
    for arg, branch in zip(expr.args, _branches(expr), strict=True):
        yield from _parts(arg, (*guard, *branch))


def _branches(expr: Expr) -> list[list[Expr]]:
    """For each argument, the conditions under which Spark evaluates it."""
    args = expr.args
    name = expr.name if isinstance(expr, Call) else ""
    if name == "case":
        # when, then, when, then, …, else
        passed = [_test("is_not_true", each) for each in args[: len(args) - 1 : 2]]
        return [[*passed[: i // 2], args[i - 1]] if i % 2 else passed[: i // 2] for i in range(len(args))]
    if name == "nvl2":
        return [[], [_test("is_not_null", args[0])], [_test("is_null", args[0])]]
    if name in _SHORT_CIRCUIT:
        passed = [_test(_SHORT_CIRCUIT[name], each) for each in args]
        return [passed[:i] for i in range(len(args))]
    return [[] for _ in args]


_SHORT_CIRCUIT = {"and": "is_not_false", "or": "is_not_true", "coalesce": "is_null"}
"""Functions that evaluate an argument only if all before it have this property."""


def _test(name: str, expr: Expr) -> Expr:
    return Call(BOOLEAN, name, (expr,))


def _conditions(node: Operator) -> list[Expr]:
    """The conditions of all selections between an operator's output and its source."""
    found: list[Expr] = []
    while node.passes_batches:
        found += node.predicates if isinstance(node, Select) else ()
        (node,) = node.inputs
    return found

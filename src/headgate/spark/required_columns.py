"""Which columns of each stream the queries need in the worker, what Catalyst computes for them, and for which rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headgate.graph.expressions import Expr, Foreign
from headgate.graph.operators import Operator, Select, Source, source_of
from headgate.graph.queries import Query


@dataclass
class RequiredColumns:
    """What must be carried into the worker of one stream: declared columns by position, computed columns by key."""

    columns: set[int] = field(default_factory=set)
    foreign: dict[str, Foreign] = field(default_factory=dict)

    def covers(self, other: RequiredColumns) -> bool:
        return other.columns <= self.columns and set(other.foreign) <= set(self.foreign)


@dataclass(frozen=True)
class ForeignUse:
    """A query's use of an expression that Catalyst computes, in one of its operators.

    Only rows for which all of `guard` hold reach the operator.
    """

    query: str
    stream: str
    foreign: Foreign
    operator: str
    guard: tuple[Expr, ...]


def required_columns(queries: Iterable[Query]) -> dict[str, RequiredColumns]:
    """What every stream that some query reads must bring."""
    found: dict[str, RequiredColumns] = {}
    for query in queries:
        _require(query.plan, frozenset(range(len(query.plan.schema))), found)
        for use in _foreign_uses(query.name, query.plan):
            found[use.stream].foreign[use.foreign.key] = use.foreign
    return found


def foreign_uses(queries: Iterable[Query]) -> list[ForeignUse]:
    """All uses in these queries, each once."""
    return list({use: None for query in queries for use in _foreign_uses(query.name, query.plan)})


def _require(node: Operator, wanted: frozenset[int], found: dict[str, RequiredColumns]) -> None:
    """Requires of the inputs what the operator reads itself and what is wanted of the columns that it passes on."""
    if isinstance(node, Source):
        mine = found.setdefault(node.stream, RequiredColumns())
        mine.columns |= wanted if node.time is None else {*wanted, node.time}
        return
    origins = {origin for column in wanted for origin in node.origins(column)}
    for number, each in enumerate(node.inputs):
        _require(each, node.reads(number) | {column for source, column in origins if source == number}, found)


def _foreign_uses(query: str, node: Operator) -> Iterator[ForeignUse]:
    exprs = [expr for scope, expr in node.expressions if scope == 0]
    source = source_of(node.inputs[0]) if node.inputs else None
    if source is not None:
        for expr in exprs:
            # The other conditions of the same selection guard this one: a row that fails them is dropped anyway.
            others = [e for e in exprs if e is not expr] if isinstance(node, Select) else []
            guard = (*_conditions(node.inputs[0]), *others)
            for part in expr.walk():
                if isinstance(part, Foreign):
                    yield ForeignUse(query, source.stream, part, node.kind, guard)
    for each in node.inputs:
        yield from _foreign_uses(query, each)


def _conditions(node: Operator) -> list[Expr]:
    """The conditions of all selections between an operator's output and its source."""
    found: list[Expr] = []
    while node.passes_batches:
        found += node.predicates if isinstance(node, Select) else ()
        (node,) = node.inputs
    return found

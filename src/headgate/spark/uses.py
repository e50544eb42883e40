"""Which queries use which expression that Catalyst computes, and which rows each of them wants it for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headgate.graph.expressions import Expr, Foreign
from headgate.graph.operators import Operator, Select, Source
from headgate.graph.queries import Query
from headgate.spark.needs import reads


@dataclass(frozen=True)
class Use:
    """A query's use of an expression in one of its operators. Rows that do not meet all of `guard` never get there."""

    query: str
    stream: str
    foreign: Foreign
    operator: str
    guard: tuple[Expr, ...]


def uses(queries: Iterable[Query]) -> list[Use]:
    """All uses in these queries, each once."""
    found = {use: None for query in queries for use in _of(query.name, query.plan)}
    return list(found)


def _of(query: str, node: Operator) -> Iterator[Use]:
    source, met = _below(node)
    if source is not None:
        exprs = list(reads(node))
        for expr in exprs:
            for part in expr.walk():
                if isinstance(part, Foreign):
                    # A row that fails another condition of the same selection goes, whatever this one says.
                    beside = [e for e in exprs if e is not expr] if isinstance(node, Select) else []
                    yield Use(query, source.stream, part, node.kind, (*met, *beside))
    for each in node.inputs:
        yield from _of(query, each)


def _below(node: Operator) -> tuple[Source | None, list[Expr]]:
    """The source that the operator reaches through selections alone, if it does, and what they ask for."""
    met: list[Expr] = []
    below = node.inputs[0] if node.inputs else None
    while isinstance(below, Select):
        met += below.predicates
        below = below.input
    return (below if isinstance(below, Source) else None), met

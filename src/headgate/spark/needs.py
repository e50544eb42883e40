"""Which columns of each stream the queries read, and what Catalyst must compute for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.graph.expressions import Expr, Foreign
from headgate.graph.operators import (
    Aggregate,
    Distinct,
    Expand,
    Join,
    Lookup,
    Operator,
    Project,
    Select,
    Source,
    Split,
    Top,
    Union,
)
from headgate.graph.queries import Query


@dataclass
class Needs:
    """What must be carried into the worker of one stream."""

    columns: set[int] = field(default_factory=set)
    foreign: dict[str, Foreign] = field(default_factory=dict)

    def covers(self, other: Needs) -> bool:
        return other.columns <= self.columns and set(other.foreign) <= set(self.foreign)


def needs(queries: Iterable[Query]) -> dict[str, Needs]:
    """The needs of every stream that some query reads.

    Columns are asked for from the results downwards: an operator asks its inputs for what it reads itself and for
    what its consumers ask of the columns that it only passes on.
    """
    found: dict[str, Needs] = {}
    for query in queries:
        _ask(query.plan, set(range(len(query.plan.schema))), found)
    return found


def _ask(node: Operator, wanted: set[int], found: dict[str, Needs]) -> None:
    if isinstance(node, Source):
        mine = found.setdefault(node.stream, Needs())
        mine.columns |= wanted
        if node.time is not None:
            mine.columns.add(node.time)
        return
    exprs = list(reads(node))
    for stream in _sources_by_selection(node):
        mine = found.setdefault(stream, Needs())
        for expr in exprs:
            for part in expr.walk():
                if isinstance(part, Foreign):
                    mine.foreign[part.key] = part
    if isinstance(node, Join):
        left = len(node.left.schema)
        residual = _columns(node.residual)
        both = wanted | residual
        keys = (_columns((*node.left_keys, node.bound.left)), _columns((*node.right_keys, node.bound.right)))
        _ask(node.left, keys[0] | {c for c in both if c < left}, found)
        if node.how in ("semi", "anti"):
            both = residual
        _ask(node.right, keys[1] | {c - left for c in both if c >= left}, found)
    elif isinstance(node, Union):
        for each in node.parts:
            _ask(each, wanted, found)
    elif isinstance(node, Lookup):
        width = len(node.input.schema)
        _ask(node.input, _columns(node.keys) | {c for c in wanted | _columns(node.residual) if c < width}, found)
    elif isinstance(node, Project | Aggregate):
        _ask(node.inputs[0], _columns(exprs), found)
    elif isinstance(node, Distinct):
        _ask(node.input, set(range(len(node.input.schema))), found)
    else:
        # These pass their input on: Select as it is; Expand, Split and Top with a column added.
        width = len(node.inputs[0].schema)
        _ask(node.inputs[0], _columns(exprs) | {c for c in wanted if c < width}, found)


def reads(node: Operator) -> Iterable[Expr]:
    """The expressions of an operator over its (first) input."""
    if isinstance(node, Select):
        return node.predicates
    if isinstance(node, Project):
        return node.exprs
    if isinstance(node, Aggregate):
        inside = [e for call in node.calls for e in (*call.args, *([call.where] if call.where is not None else []))]
        on = [node.window.on] if node.window is not None and node.window.on is not None else []
        return [*node.keys, *inside, *on]
    if isinstance(node, Split):
        return node.conditions
    if isinstance(node, Expand):
        return [node.window.on] if node.window.on is not None else []
    if isinstance(node, Top):
        return [*node.partition, *(term.expr for term in node.order), node.time]
    if isinstance(node, Distinct):
        return [node.time]
    if isinstance(node, Lookup):
        return node.keys
    return ()


def _columns(exprs: Iterable[Expr]) -> set[int]:
    return {column for expr in exprs for column in expr.columns}


def _sources_by_selection(node: Operator) -> list[str]:
    """The stream whose rows the operator sees as they came, if it does."""
    for below in node.inputs[:1]:
        while isinstance(below, Select):
            below = below.input
        if isinstance(below, Source):
            return [below.stream]
    return []

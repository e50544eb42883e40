"""The order of joins with static tables: the most selective one should come first.

Each row is joined with each table independently, so lookups commute as long as a table's columns are used only after
its lookup, and no expression can raise an error on rows that another order would have removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headgate.control.plans.rewriting import replaced, topmost
from headgate.expressions.functions import fallible
from headgate.graph.expressions import Column, Expr
from headgate.graph.operators import Lookup, Operator, Project
from headgate.graph.types import Schema


@dataclass(frozen=True)
class _Joined:
    """A lookup with its expressions over all columns of the chain: those of the base, then those of each table.

    `first` is the position of its table's first column there.
    """

    lookup: Lookup
    keys: tuple[Expr, ...]
    residual: tuple[Expr, ...]
    first: int

    @property
    def columns(self) -> range:
        """The columns of its table."""
        return range(self.first, self.first + len(self.lookup.table_schema))

    @property
    def adds(self) -> bool:
        return self.lookup.how in ("inner", "left")

    @property
    def needs(self) -> frozenset[int]:
        """The columns that must exist before this lookup."""
        used = frozenset().union(*(expr.columns for expr in (*self.keys, *self.residual)))
        return used - frozenset(self.columns)


@dataclass(frozen=True)
class _Chain:
    """Consecutive lookups, the first one over `base`; `output`: the columns of the chain that its top operator has."""

    base: Operator
    joined: tuple[_Joined, ...]
    output: tuple[int, ...]


def lookup_orders(plan: Operator) -> dict[str, Operator]:
    """The plans in which another table is looked up first, by their names."""
    for top in topmost(plan, Lookup):
        chain = _chain(top)
        if len(chain.joined) > 1:
            return {
                f"{first.lookup.table} first": replaced(plan, top, _rebuilt(top.schema, chain, first))
                for first in _movable(chain)
            }
    return {}


def _movable(chain: _Chain) -> Iterator[_Joined]:
    """The lookups that can be moved to the first position."""
    width = len(chain.base.schema)
    if any(fallible(expr) for each in chain.joined for expr in (*each.keys, *each.residual)):
        return
    for each in chain.joined[1:]:
        if all(column < width for column in each.needs):
            yield each


def _chain(top: Lookup) -> _Chain:
    """`top` and the lookups below it, as long as only projections to columns lie between them."""
    stack: list[tuple[Lookup, tuple[Expr, ...] | None]] = []
    node: Operator = top
    chosen: tuple[Expr, ...] | None = None
    while True:
        if isinstance(node, Lookup):
            stack.append((node, chosen))
            node, chosen = node.input, None
        elif isinstance(node, Project) and chosen is None and _choice(node) and isinstance(node.input, Lookup):
            chosen = node.exprs
            node = node.input
        else:
            break
    base = stack[-1][0].input
    layout = list(range(len(base.schema)))
    joined: list[_Joined] = []
    following = len(layout)
    for lookup, above in reversed(stack):
        first = following
        following += len(lookup.table_schema)
        beside = [*layout, *range(first, following)]
        keys = tuple(_moved(key, layout) for key in lookup.keys)
        joined.append(_Joined(lookup, keys, tuple(_moved(term, beside) for term in lookup.residual), first))
        if joined[-1].adds:
            layout = beside
        if above is not None:
            layout = [layout[expr.index] for expr in above if isinstance(expr, Column)]
    return _Chain(base, tuple(joined), tuple(layout))


def _choice(project: Project) -> bool:
    return all(isinstance(expr, Column) for expr in project.exprs)


def _moved(expr: Expr, layout: Sequence[int]) -> Expr:
    return expr.moved(dict(enumerate(layout)))


def _rebuilt(schema: Schema, chain: _Chain, first: _Joined) -> Operator:
    """The chain with lookup `first` at the base and the others in their order; its columns are those of `schema`."""
    node = chain.base
    layout = list(range(len(node.schema)))
    for each in (first, *(other for other in chain.joined if other is not first)):
        lookup = each.lookup
        beside = [*layout, *each.columns]
        places = {column: place for place, column in enumerate(beside)}
        fields = (*node.schema.fields, *lookup.table_schema.fields) if each.adds else node.schema.fields
        node = replace(
            lookup,
            schema=Schema(fields),
            input=node,
            keys=tuple(key.moved(places) for key in each.keys),
            residual=tuple(term.moved(places) for term in each.residual),
        )
        layout = beside if each.adds else layout
    exprs = tuple(Column(field.type, layout.index(c)) for field, c in zip(schema.fields, chain.output, strict=True))
    return Project(schema, node, exprs)

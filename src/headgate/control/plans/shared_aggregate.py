"""Sharing an aggregate that another query already runs, instead of running a separate one.

A condition on the keys of an aggregate is normally applied to its input rows, where it saves work. If another query
runs the same aggregate without that condition, the condition can be applied to the results instead, which are computed
anyway. The same groups pass, since all rows of a group have the same keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.control.plans.rewriting import replaced, topmost
from headgate.expressions.functions import fallible
from headgate.graph.expressions import Column, Expr, in_terms_of
from headgate.graph.operators import Aggregate, Operator, Project, Select
from headgate.graph.queries import Query

PREFIX = "shared with "


def shared_aggregates(plan: Operator, others: Iterable[Query]) -> dict[str, Operator]:
    """The plans that read an aggregate of another query, by their names: one for each such aggregate."""
    made: dict[str, Operator] = {}
    own = list(topmost(plan, Aggregate))
    for query in others:
        for wide in topmost(query.plan, Aggregate):
            for narrow in own:
                read = _read(narrow, wide)
                if read is not None:
                    made.setdefault(f"{PREFIX}{query.name}", replaced(plan, narrow, read))
    return made


def _read(narrow: Aggregate, wide: Aggregate) -> Operator | None:
    """The results of one aggregate, computed from those of a wider one; None if that is not possible."""
    if narrow.window is None or narrow.window.kind == "rows" or wide.having is not None or wide == narrow:
        return None
    if (narrow.window, narrow.keys) != (wide.window, wide.keys):
        return None
    if any(call not in wide.calls for call in narrow.calls):
        return None
    base, conditions = _conditions(narrow.input)
    known, applied = _conditions(wide.input)
    if base != known or any(term not in conditions for term in applied):
        return None
    columns = [Column(key.type, place) for place, key in enumerate(wide.keys, wide.first_key)]
    terms: list[Expr] = []
    for term in conditions:
        if term not in applied:
            moved = None if fallible(term) else in_terms_of(term, wide.keys, columns)
            if moved is None:
                return None
            terms.append(moved)
    calls = [wide.first_call + wide.calls.index(call) for call in narrow.calls]
    places = [*range(wide.first_call), *calls]
    exprs = tuple(Column(field.type, place) for field, place in zip(narrow.schema.fields, places, strict=True))
    chosen = Select(wide.schema, wide, tuple(terms)) if terms else wide
    made: Operator = Project(narrow.schema, chosen, exprs)
    if narrow.having is not None:
        made = Select(narrow.schema, made, (narrow.having,))
    return made


def _conditions(node: Operator) -> tuple[Operator, tuple[Expr, ...]]:
    """The input of a chain of selections, and all their predicates."""
    found: tuple[Expr, ...] = ()
    while isinstance(node, Select):
        found = (*node.predicates, *found)
        node = node.input
    return node, found

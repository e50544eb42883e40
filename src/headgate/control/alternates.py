"""Alternate plans of a query (003 §3.4): equivalent graphs, between which the run-time optimizer chooses.

So far there is one kind: the order of selections that call Python functions. Such predicates are computed one after the
other, each on the rows that all before it let through, so a cheap or selective one should come first. A query with
several of them runs them as separate operators under `auto`: each is measured.

A plan is swapped between two epochs, after the rows that wait for the query are worked off (`Network.swap`). Nothing is
lost, because nothing with state is above the selections: a query with state above them has no alternates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headgate.graph.expressions import Call, Expr
from headgate.graph.operators import Operator, Select
from headgate.graph.queries import Query

MOST = 4
"""Predicates up to which alternates are made: each of them may be the first."""


def obstacle(query: Query) -> str | None:
    """Why a query has no alternate plans; None if it has some."""
    found = _selection(query.plan)
    if found is None:
        return "it has no selection by several Python functions"
    if any(node.stateful for node in _above(query.plan, found)):
        return "operators above the selection have state, which would be lost"
    if len(_slow(found)) > MOST:
        return f"it has more than {MOST} Python functions in one selection"
    return None


def alternates(query: Query) -> tuple[str, ...]:
    """The names of a query's alternate plans, besides the plan as written."""
    if obstacle(query) is not None:
        return ()
    found = _selection(query.plan)
    assert found is not None
    return tuple(dict.fromkeys(_name(predicate) for predicate in _slow(found)[1:]))


def planned(query: Query, name: str) -> Query:
    """A query under an alternate plan; with an empty name as written, with one operator for each Python function."""
    if obstacle(query) is not None:
        return query
    found = _selection(query.plan)
    assert found is not None
    slow = _slow(found)
    first = next((predicate for predicate in slow if _name(predicate) == name), slow[0])
    order = [first, *(predicate for predicate in slow if predicate is not first)]
    quick = tuple(predicate for predicate in found.predicates if predicate not in slow)
    chain = found.input
    for place, predicate in enumerate(order):
        chain = replace(found, input=chain, predicates=(*quick, predicate) if not place else (predicate,))
    return replace(query, plan=_replaced(query.plan, found, chain))


def running_as(query: Query, other: Operator) -> str | None:
    """The name of the alternate plan of a query that another plan is; None if it is none of them."""
    if obstacle(query) is None:
        for name in ("", *alternates(query)):
            if planned(query, name).plan == other:
                return name
    return None


def _name(predicate: Expr) -> str:
    """What users see: the function that is called first."""
    return f"{_functions(predicate)[0]} first"


def _functions(predicate: Expr) -> list[str]:
    return [part.option for part in predicate.walk() if isinstance(part, Call) and part.name == "python"]


def _slow(select: Select) -> list[Expr]:
    return [predicate for predicate in select.predicates if _functions(predicate)]


def _selection(node: Operator) -> Select | None:
    """The first selection, from the top, with several Python functions."""
    if isinstance(node, Select) and len({tuple(_functions(p)) for p in _slow(node)}) > 1:
        return node
    for each in node.inputs:
        found = _selection(each)
        if found is not None:
            return found
    return None


def _above(node: Operator, below: Operator) -> Iterator[Operator]:
    """The operators of a plan that are not below one of them, nor it itself."""
    if node is not below:
        yield node
        for each in node.inputs:
            yield from _above(each, below)


def _replaced(node: Operator, old: Operator, new: Operator) -> Operator:
    if node is old:
        return new
    inputs = tuple(_replaced(each, old, new) for each in node.inputs)
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    return node.with_inputs(inputs)

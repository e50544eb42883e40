"""The order of selections that call Python functions.

Such predicates are evaluated one after the other, each on the rows that passed the earlier ones, so a cheap or
selective one should come first. A query with several of them runs them as separate operators, so that each is measured.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from headgate.control.plans.rewriting import replaced, topmost
from headgate.graph.expressions import Call, Expr
from headgate.graph.operators import Operator, Select

MOST = 4
"""Most predicates for which alternates are generated; in each alternate another predicate comes first."""


def separated(plan: Operator) -> Operator:
    """A plan with one operator for each of several predicates that call Python functions, in the order as written."""
    found = _selection(plan)
    return plan if found is None else replaced(plan, found, _chain(found, _slow(found)[0]))


def predicate_orders(plan: Operator) -> dict[str, Operator]:
    """The plans in which another predicate comes first, by their names: `f first` for a function `module:f`, or
    `module:f first` if other functions have this name."""
    found = _selection(plan)
    if found is None:
        return {}
    functions = {function for predicate in _slow(found) for function in _functions(predicate)}
    short = Counter(function.rpartition(":")[2] for function in functions)
    made: dict[str, Operator] = {}
    for predicate in _slow(found)[1:]:
        function = _functions(predicate)[0]
        name = function.rpartition(":")[2]
        made.setdefault(
            f"{name if short[name] == 1 else function} first", replaced(plan, found, _chain(found, predicate))
        )
    return made


def _chain(select: Select, first: Expr) -> Operator:
    """A chain of selections: predicates without Python functions, then the predicate `first`, then the others."""
    slow = _slow(select)
    quick = tuple(predicate for predicate in select.predicates if predicate not in slow)
    chain = replace(select, predicates=quick) if quick else select.input
    for predicate in (first, *(each for each in slow if each is not first)):
        chain = replace(select, input=chain, predicates=(predicate,))
    return chain


def _functions(predicate: Expr) -> list[str]:
    return [part.option for part in predicate.walk() if isinstance(part, Call) and part.name == "python"]


def _slow(select: Select) -> list[Expr]:
    return [predicate for predicate in select.predicates if _functions(predicate)]


def _selection(plan: Operator) -> Select | None:
    """The first selection, from the top, with several Python functions."""
    for select in topmost(plan, Select):
        if len({tuple(_functions(predicate)) for predicate in _slow(select)}) > 1 and len(_slow(select)) <= MOST:
            return select
    return None

"""Maps the state of one plan of a query to another, equivalent plan."""

from __future__ import annotations

from headgate.graph.operators import Aggregate, Lookup, Merge, Operator, Select, Source


def carried_state(old: Operator, new: Operator) -> dict[Operator, Operator] | None:
    """For each operator of the new plan that has state, the one of the old plan whose state it continues.

    None if some state would be lost, or if an operator would start without state. The plans must be equivalent:
    operators that do the same to the same rows have the same state, whatever the order of the selections and lookups
    below them. The second half of an aggregate has the state of the whole aggregate.
    """
    before = [node for node in old.walk() if node.stateful]
    after = [node for node in new.walk() if node.stateful]
    if sorted(map(_work, before)) != sorted(map(_work, after)):
        return None
    if len({_work(node) for node in before}) < len(before) and before != after:
        # Operators that do the same to different rows cannot be distinguished.
        return None
    known = {_work(node): node for node in before}
    return {node: known[_work(node)] for node in after} if before != after else {node: node for node in after}


def _work(node: Operator) -> tuple[str, ...]:
    """What an operator does, and to which rows: the streams, conditions and tables below it, in any order."""
    below = [each for source in node.inputs for each in source.walk()]
    rows = [each.detail for each in below if isinstance(each, Source)]
    rows += [predicate.text for each in below if isinstance(each, Select) for predicate in each.predicates]
    rows += [f"{each.how} {each.table}" for each in below if isinstance(each, Lookup)]
    if isinstance(node, Merge):
        return Aggregate.__name__.lower(), node.aggregate.detail, *sorted(rows)
    return node.kind, node.detail, *sorted(rows)

"""All alternate plans of a query, by their names, and whether a running query can change to one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.control.plans.early_aggregate import early_aggregates
from headgate.control.plans.lookup_order import lookup_orders
from headgate.control.plans.predicate_order import predicate_orders, separated
from headgate.control.plans.shared_aggregate import shared_aggregates
from headgate.graph.carrying import carried_state
from headgate.graph.operators import Operator
from headgate.graph.queries import Query
from headgate.runtime.scaling import is_scaled, scalable

WRITTEN = "as written"


def alternates(query: Query, others: Iterable[Query] = ()) -> dict[str, Operator]:
    """The plans of a query: the one as written, and those that differ from it in one respect.

    `others`: the other running queries, each with its current plan. Results that are scaled while rows are shed must
    be so under every plan.
    """
    plan = query.plan
    found = {
        WRITTEN: separated(plan),
        **predicate_orders(plan),
        **lookup_orders(plan),
        **early_aggregates(plan),
        **shared_aggregates(plan, (other for other in others if other.name != query.name)),
    }
    return {name: each for name, each in found.items() if scalable(each)} if is_scaled(query) else found


def reason_not_switchable(running: Operator, other: Operator, beside: Iterable[Query] = ()) -> str | None:
    """Why a running query cannot change to another plan without losing state; None if it can."""
    carried = carried_state(running, other)
    if carried is None:
        return "its operators have state that the other plan does not have"
    fresh = [new for new, old in carried.items() if new != old]
    for query in beside:
        if any(new in query.plan.walk() for new in fresh):
            return f"query {query.name} runs a part of that plan with a state of its own"
    return None


def named(plans: Mapping[str, Operator], plan: Operator) -> str | None:
    """The name of `plan` in `plans`; None if it is not among them."""
    return next((name for name, known in plans.items() if known == plan), None)

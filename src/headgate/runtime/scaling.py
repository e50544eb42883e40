"""Which queries can be scaled up to all rows while rows of them are shed (option `scaled`)."""

from __future__ import annotations

from headgate.graph.operators import Aggregate, Operator, Partial, Project, Select, Send, Source
from headgate.graph.queries import Query


def is_scaled(query: Query) -> bool:
    """Whether a query asks for scaling and has a plan that can be scaled."""
    return bool(query.spec.scaled) and scalable(query.plan)


def scalable(plan: Operator) -> bool:
    """Whether a plan is an aggregate over the rows of one stream, or the first half of one.

    The rows of a join are not proportional to those of one stream, and a window of rows has as many as it says.
    """
    while isinstance(plan, (Project, Send)):
        plan = plan.input
    aggregate = plan.aggregate if isinstance(plan, Partial) else plan
    if not isinstance(aggregate, Aggregate) or (aggregate.window is not None and aggregate.window.kind == "rows"):
        return False
    return all(isinstance(node, (Select, Project, Source)) for node in plan.inputs[0].walk())

"""Aggregates before a join with a static table (eager aggregation: Yan and Larson, VLDB 1995).

Rows of one batch that are equal in all values that the join and the grouping read are reduced to one partial state; the
states are joined, and then merged into the groups. All rows of a state have the same join partners, so the groups are
the same. The merge has the same state as the aggregate that it replaces, so a query can change plans without losing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from headgate.control.plans.rewriting import replaced, topmost
from headgate.expressions.functions import fallible
from headgate.graph.expressions import Column, Expr
from headgate.graph.operators import Aggregate, Lookup, Merge, Operator, Partial, Project
from headgate.graph.operators.exchange import FIRST_KEY
from headgate.graph.types import Field, Schema
from headgate.spark.exchange import mergeable, partial_states

NAME = "aggregate first"


def early_aggregates(plan: Operator) -> dict[str, Operator]:
    """The plan that aggregates rows before the join with a static table, by its name; empty if there is none."""
    for aggregate in topmost(plan, Aggregate):
        made = _early(aggregate)
        if made is not None:
            return {NAME: replaced(plan, aggregate, made)}
    return {}


def _early(aggregate: Aggregate) -> Operator | None:
    lookup, window = aggregate.input, aggregate.window
    if not isinstance(lookup, Lookup) or window is None or window.on is None or not mergeable(aggregate):
        return None
    rows = lookup.input
    width = len(rows.schema)
    computed = [window.on, *(expr for call in aggregate.calls for expr in (*call.args, call.where) if expr is not None)]
    if any(column >= width for expr in computed for column in expr.columns):
        return None
    keys = _group_keys(aggregate, lookup, width)
    if any(fallible(expr) for expr in (*computed, *keys, *lookup.residual)) or any(_inexact(k.type) for k in keys):
        return None
    fields = tuple(Field(f"key{place}", key.type) for place, key in enumerate(keys))
    schema = Schema((aggregate.schema[0], *fields, *aggregate.schema.fields[aggregate.first_call :]))
    early = replace(aggregate, schema=schema, input=rows, keys=tuple(keys), having=None)
    partial = Partial(partial_states(early), rows, early)
    states = len(partial.schema)

    def after(expr: Expr) -> Expr:
        """Rewrites an expression over the lookup's columns to one over the columns of the joined states."""
        for place, key in enumerate(keys, FIRST_KEY):
            if expr == key:
                return Column(key.type, place)
        if isinstance(expr, Column):
            return Column(expr.type, expr.index - width + states)
        return expr.rewrite(lambda part: None if part is expr or not part.columns else after(part))

    adds = lookup.table_schema.fields if lookup.how in ("inner", "left") else ()
    joined = replace(
        lookup,
        schema=Schema((*partial.schema.fields, *adds)),
        input=partial,
        keys=tuple(after(key) for key in lookup.keys),
        residual=tuple(after(term) for term in lookup.residual),
    )
    laid_out = partial_states(aggregate)
    first = FIRST_KEY + len(keys)
    kept = [Column(field.type, place) for place, field in enumerate(partial.schema.fields[first:], first)]
    exprs = (Column(laid_out[0].type, 0), *(after(key) for key in aggregate.keys), *kept)
    return Merge(aggregate.schema, Project(laid_out, joined, exprs), aggregate)


def _group_keys(aggregate: Aggregate, lookup: Lookup, width: int) -> list[Expr]:
    """The keys of a partial state: all input values that the lookup and the grouping read."""
    found: dict[Expr, None] = dict.fromkeys(lookup.keys)
    for key in aggregate.keys:
        if key.columns and max(key.columns) < width:
            found[key] = None
        else:
            found |= dict.fromkeys(_own_columns(key, width))
    for term in lookup.residual:
        found |= dict.fromkeys(_own_columns(term, width))
    return list(found)


def _own_columns(expr: Expr, width: int) -> Sequence[Expr]:
    return [part for part in expr.walk() if isinstance(part, Column) and part.index < width]


def _inexact(type_: pa.DataType) -> bool:
    """Whether values that are equal as keys may differ: -0.0 and 0.0."""
    return bool(pa.types.is_floating(type_) or pa.types.is_nested(type_))

"""The values of expressions over the rows of a batch: compiled once, shared through the batch's memo."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.compiler import Compiled, compiled
from headgate.expressions.kernels import Value, array_of
from headgate.graph.expressions import Expr
from headgate.operators.batch import Batch

__all__ = ["Selection", "evaluate", "select"]


def _compiled(expr: Expr) -> Compiled:
    """The compiled expression. It is cached on the expression object: equal texts over other types differ."""
    found: Compiled | None = expr.__dict__.get("_compiled")
    if found is None:
        found = expr.__dict__["_compiled"] = compiled(expr)
    return found


def evaluate(expr: Expr, batch: Batch) -> pa.Array:
    """The value on every row of `batch.rows`.

    If a selection is pending, an expression that may fail is computed on the selected rows only and is null on the
    others. Every other expression is computed on all rows and kept in `batch.computed`. Raises EvaluationError.
    """
    found = batch.computed.get(expr)
    if found is not None:
        return array_of(found, batch.rows.num_rows)
    program = _compiled(expr)
    if program.fallible and batch.mask is not None:
        return _spread(program, batch, batch.mask)
    return array_of(program.run(batch), batch.rows.num_rows)


def _spread(program: Compiled, batch: Batch, mask: pa.BooleanArray) -> pa.Array:
    chosen = pc.fill_null(mask, False)
    values = array_of(program.run(batch.materialized()), pc.sum(chosen).as_py() or 0)
    places = np.cumsum(chosen.to_numpy(zero_copy_only=False)) - 1
    return values.take(pc.if_else(chosen, pa.array(places, pa.int64()), pa.scalar(None, pa.int64())))


def select(batch: Batch, predicates: Sequence[Expr]) -> Batch:
    """The batch with the rows selected for which every predicate is true; see `Selection`."""
    return Selection(predicates)(batch)


class Selection:
    """Predicates prepared to select the rows of many batches.

    Predicates that cannot fail are computed on all rows and narrow the pending mask; those that can fail are computed
    in order, each on the rows that passed all before it.
    """

    def __init__(self, predicates: Sequence[Expr]) -> None:
        programs = [_compiled(p) for p in predicates]
        self._safe = [p.run for p in programs if not p.fallible]
        self._fallible = [p.run for p in programs if p.fallible]

    def __call__(self, batch: Batch) -> Batch:
        mask = batch.mask
        rows = batch.rows.num_rows
        for run in self._safe:
            mask = _narrowed(mask, run(batch), rows)
        selected = _with_mask(batch, mask)
        for run in self._fallible:
            selected = selected.materialized()
            selected = _with_mask(selected, _narrowed(None, run(selected), selected.rows.num_rows))
        return selected


def _narrowed(mask: pa.BooleanArray | None, truth: Value, rows: int) -> pa.BooleanArray | None:
    if isinstance(truth, pa.Scalar):
        return mask if truth.as_py() else pa.repeat(False, rows)
    return truth if mask is None else pc.and_(mask, truth)


def _with_mask(batch: Batch, mask: pa.BooleanArray | None) -> Batch:
    if mask is batch.mask:
        return batch
    return Batch(batch.rows, batch.arrival, batch.watermark, mask, batch.computed)

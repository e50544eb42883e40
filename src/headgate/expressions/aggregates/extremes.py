"""min, max, bool_and, bool_or; and the values found at an extreme: min_by, max_by, first, last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.aggregates.grouping import Groups, Reduction, Rounds
from headgate.expressions.aggregates.registry import aggregate
from headgate.expressions.aggregates.signature import AggregateSignature, conditions
from headgate.expressions.keys import ordered, ranks, unordered
from headgate.expressions.signature import Types, WrongArguments, count_arguments
from headgate.graph.expressions import Expr
from headgate.graph.operators import AggregateCall
from headgate.graph.types import is_key, sql_name


def _extreme(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 1)
    _check_ordered(name, types, 0)
    return AggregateSignature(name, types, types[0])


def _extreme_by(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 2)
    _check_ordered(name, types, 1)
    return AggregateSignature(name, types, types[0])


def _check_ordered(name: str, types: Types, position: int) -> None:
    if not is_key(types[position]):
        raise WrongArguments(f"{name} cannot order {sql_name(types[position])}; name one of its elements", position)


def _at_end(name: str, types: Types) -> AggregateSignature:
    """first(x[, ignore nulls]); the binder passes the flag as the option."""
    count_arguments(name, types, 1)
    return AggregateSignature(name, types, types[0])


@aggregate("min", "max", types=_extreme)
def _min_max(call: AggregateCall, args: tuple[Expr, ...]) -> Extreme | ExtremeBy:
    # Acero has no order of structs: the extreme is that row's own value, found by its rank.
    return ExtremeBy(args * 2, call.name) if pa.types.is_struct(args[0].type) else Extreme(args, call.name)


@aggregate("bool_and", "bool_or", types=conditions, aliases={"every": "bool_and", "some": "bool_or", "any": "bool_or"})
def _bool(call: AggregateCall, args: tuple[Expr, ...]) -> Extreme:
    return Extreme(args, "min" if call.name == "bool_and" else "max")


@aggregate("min_by", "max_by", types=_extreme_by, distinct=False)
def _min_max_by(call: AggregateCall, args: tuple[Expr, ...]) -> ExtremeBy:
    return ExtremeBy(args, call.name.removesuffix("_by"))


@aggregate(
    *("first", "last", "any_value"),
    types=_at_end,
    aliases={"first_value": "first", "last_value": "last"},
    distinct=False,
    keeps_nulls=True,
)
def _first_last(call: AggregateCall, args: tuple[Expr, ...]) -> AtEnd:
    return AtEnd(args, "max" if call.name == "last" else "min", call.option == "ignore nulls")


class Extreme:
    """The smallest or largest value that is not null. NaN is larger than any number, as in Spark."""

    needs_ids = False
    needs_order = False

    def __init__(self, inputs: tuple[Expr, ...], how: str) -> None:
        self.inputs = inputs
        self._type = inputs[0].type
        self._how = how
        self.types = (ordered(pa.array([], self._type)).type,)

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield [Reduction(ordered(inputs[0]), self._how)])

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield [Reduction(state[0], self._how)])

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        return unordered(state[0], self._type)


class ExtremeBy:
    """The value of one column in the row where another is smallest or largest (nulls of the other do not count)."""

    needs_ids = False
    needs_order = False

    def __init__(self, inputs: tuple[Expr, ...], how: str) -> None:
        self.inputs = inputs
        self._how = how
        self.types = (inputs[0].type, inputs[1].type)

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield from _in_extreme_row(inputs[0], inputs[1], self._how))

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        return (yield from _in_extreme_row(state[0], state[1], self._how))

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        return state[0]


class AtEnd:
    """first, last, any_value: the value that arrived first or last. Inputs: value, whether it counts, row number."""

    needs_ids = False
    needs_order = True

    def __init__(self, inputs: tuple[Expr, ...], how: str, ignore_nulls: bool) -> None:
        self.inputs = inputs
        self._how = how
        self._ignore_nulls = ignore_nulls
        self.types = (inputs[0].type, pa.int64())

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        value, order = inputs[0], inputs[-1]
        counts = inputs[1] if len(inputs) == 3 else None
        if self._ignore_nulls:
            counts = pc.is_valid(value) if counts is None else pc.and_kleene(counts, pc.is_valid(value))
        if counts is not None:
            order = pc.if_else(counts, order, pa.scalar(None, pa.int64()))
        return (yield from self._picked(value, order))

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        # Row numbers of different replicas may be the same.
        return (yield from _in_extreme_row(state[0], state[1], self._how))

    def _picked(self, values: pa.Array, order: pa.Array) -> Rounds:
        (best,) = yield [Reduction(order, self._how)]
        # Row numbers are unique, so a binary search among the sorted numbers finds the row.
        numbers = pc.fill_null(order, -1).to_numpy()
        by_number = np.argsort(numbers, kind="stable")
        at = np.searchsorted(numbers[by_number], pc.fill_null(best, -1).to_numpy())
        chosen = pa.array(by_number[np.minimum(at, len(by_number) - 1)], mask=_nulls(best))
        return [values.take(chosen), best]

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        return state[0]


def _in_extreme_row(values: pa.Array, by: pa.Array, how: str) -> Rounds:
    """The value in the row where another column is smallest or largest, and the value of that column."""
    # Rank and position are packed into one integer: its extreme identifies the row, and ties go to the first row.
    size = max(len(by), 1)
    places = np.arange(len(by))
    names = ranks(by) * size + (places if how == "min" else size - 1 - places)
    (best,) = yield [Reduction(pa.array(names, mask=_nulls(by)), how)]
    rest = pc.fill_null(best, 0).to_numpy() % size
    chosen = pa.array(rest if how == "min" else size - 1 - rest, mask=_nulls(best))
    return [values.take(chosen), by.take(chosen)]


def _nulls(column: pa.Array) -> np.ndarray | None:
    if not column.null_count:
        return None
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False))

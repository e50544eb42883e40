"""Exact aggregates over different values: count(DISTINCT x), sum(DISTINCT x) …"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.aggregates.accumulator import Accumulator
from headgate.expressions.aggregates.grouping import Groups, Rounds
from headgate.expressions.aggregates.list_states import Ints, list_of_each, lists_by_owner
from headgate.expressions.keys import flat_types, flatten, rebuild


class DistinctValues:
    """Applies another aggregate to the distinct values of its inputs; rows with a null input are ignored."""

    needs_ids = True
    needs_order = False

    def __init__(self, inner: Accumulator) -> None:
        self.inputs = inner.inputs
        self._inner = inner
        self._given = [e.type for e in inner.inputs]
        self.types = tuple(pa.list_(t) for t in flat_types(self._given))

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        yield []
        present = reduce(pc.and_, (pc.is_valid(values) for values in inputs))
        if present.false_count:
            ids = groups.ids[present.to_numpy(zero_copy_only=False)]
            return _sets(ids, flatten([values.filter(present) for values in inputs]), groups.size)
        return _sets(groups.ids, flatten(inputs), groups.size)

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        yield []
        ids = groups.ids[list_of_each(state[0])]
        return _sets(ids, [column.flatten() for column in state], groups.size)

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        # A row of nulls per group keeps groups without values in the result; the function itself skips nulls.
        size = len(state[0])
        owners = np.concatenate([list_of_each(state[0]), np.arange(size)])
        values = rebuild([column.flatten() for column in state], self._given)
        padded = [pa.concat_arrays([v, pa.nulls(size, v.type)]) for v in values]
        groups = Groups([pa.array(owners)], len(owners))
        (keys,), (inner,) = groups.reduce([self._inner.partial(padded, groups)], self._inner.needs_ids)
        return self._inner.result(inner).take(pa.array(np.argsort(keys.to_numpy())))


def _sets(ids: Ints, flat: Sequence[pa.Array], size: int) -> list[pa.Array]:
    """The distinct values of each group: one list per group, in as many columns as the values have."""
    groups = Groups([pa.array(ids), *flat], len(ids))
    (owners, *values), _ = groups.reduce([])
    owner = owners.to_numpy()
    order = np.argsort(owner, kind="stable")
    return [lists_by_owner(owner[order], column.take(pa.array(order)), size) for column in values]

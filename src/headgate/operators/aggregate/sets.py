"""Aggregates over different values: exact (count(DISTINCT x), sum(DISTINCT x) …) and approximate.

The state of a group is a list column, so sets are merged as any other state is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import ceil, log, log2

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.expressions import Expr
from headgate.operators.aggregate.accumulator import Accumulator
from headgate.operators.aggregate.grouping import Groups, Rounds
from headgate.operators.hashing import hashed
from headgate.operators.keys import flat_types, flatten, rebuild

Ints = npt.NDArray[np.int64]


class DistinctValues:
    """Another aggregate over the different values of its inputs; rows with a null input do not count."""

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
        ids = groups.ids[_parents(state[0])]
        return _sets(ids, [column.flatten() for column in state], groups.size)

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        # A row of nulls for each group makes groups without values count; the function itself skips nulls.
        size = len(state[0])
        owners = np.concatenate([_parents(state[0]), np.arange(size)])
        values = rebuild([column.flatten() for column in state], self._given)
        padded = [pa.concat_arrays([v, pa.nulls(size, v.type)]) for v in values]
        groups = Groups([pa.array(owners)], len(owners))
        (keys,), (inner,) = groups.reduce([self._inner.partial(padded, groups)], self._inner.needs_ids)
        return self._inner.result(inner).take(pa.array(np.argsort(keys.to_numpy())))


class ApproximateCount:
    """HyperLogLog with the estimator of Ertl (2017), which needs no table of biases.

    The state holds the registers that are not zero, as number << 8 | value, so that small groups stay small.
    """

    needs_ids = True
    needs_order = False
    types = (pa.list_(pa.uint64()),)

    def __init__(self, inputs: tuple[Expr, ...], deviation: float) -> None:
        self.inputs = inputs
        self._bits = max(4, ceil(2 * log2(1.106 / deviation)))

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        yield []
        values = inputs[0]
        ids = groups.ids
        if values.null_count:
            ids = ids[pc.is_valid(values).to_numpy(zero_copy_only=False)]
            values = values.drop_null()
        hashes = hashed(flatten([values]), len(values))
        register = hashes >> np.uint64(64 - self._bits)
        rest = hashes << np.uint64(self._bits)
        rank = np.minimum(_leading_zeros(rest) + 1, 64 - self._bits).astype(np.uint64)
        return [self._highest(ids, (register << np.uint64(8)) | rank, groups.size)]

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        yield []
        entries = state[0].flatten().to_numpy()
        return [self._highest(groups.ids[_parents(state[0])], entries, groups.size)]

    @staticmethod
    def _highest(ids: Ints, entries: npt.NDArray[np.uint64], size: int) -> pa.Array:
        """Of the entries of a group with the same register, the one with the highest value."""
        order = np.lexsort((entries, ids))
        ids, entries = ids[order], entries[order]
        register = entries >> np.uint64(8)
        last = np.ones(len(ids), bool)
        last[:-1] = (ids[1:] != ids[:-1]) | (register[1:] != register[:-1])
        return _lists(ids[last], pa.array(entries[last]), size)

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        size, registers = len(state[0]), 1 << self._bits
        owners = _parents(state[0])
        values = state[0].flatten().to_numpy() & np.uint64(255)
        harmonic = np.bincount(owners, np.exp2(-values.astype(np.float64)), size)
        zeros = (registers - np.bincount(owners, minlength=size)) / registers
        with np.errstate(divide="ignore"):
            estimate = registers**2 / (2 * log(2)) / (registers * _sigma(zeros) + harmonic)
        return pa.array(np.rint(estimate).astype(np.int64))


def _sigma(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ertl's σ: x + Σ x^(2^k) 2^(k-1); infinite at 1, where all registers are zero."""
    total, power, factor = x.copy(), x.copy(), 1.0
    for _ in range(64):
        power = power * power
        total = total + power * factor
        factor *= 2
    return np.where(x >= 1, np.inf, total)


def _leading_zeros(values: npt.NDArray[np.uint64]) -> Ints:
    for shift in (1, 2, 4, 8, 16, 32):
        values = values | (values >> np.uint64(shift))
    return 64 - np.bitwise_count(values).astype(np.int64)


def _parents(lists: pa.ListArray) -> Ints:
    """For each element of the lists, which list it is in."""
    return np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy())


def _sets(ids: Ints, flat: Sequence[pa.Array], size: int) -> list[pa.Array]:
    """Each different value once a group: one list a group, in as many columns as the values have."""
    groups = Groups([pa.array(ids), *flat], len(ids))
    (owners, *values), _ = groups.reduce([])
    owner = owners.to_numpy()
    order = np.argsort(owner, kind="stable")
    return [_lists(owner[order], column.take(pa.array(order)), size) for column in values]


def _lists(owners: Ints, values: pa.Array, size: int) -> pa.ListArray:
    """Lists of values that stand in the order of their owners."""
    offsets = np.searchsorted(owners, np.arange(size + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)

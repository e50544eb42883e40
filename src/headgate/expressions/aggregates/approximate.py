"""approx_count_distinct: the number of different values, by HyperLogLog."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, log2

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.aggregates.grouping import Groups, Rounds
from headgate.expressions.aggregates.list_states import Ints, list_of_each, lists_by_owner
from headgate.expressions.aggregates.registry import aggregate
from headgate.expressions.aggregates.signature import AggregateSignature, check_comparable
from headgate.expressions.hashing import hashed
from headgate.expressions.keys import flatten
from headgate.expressions.signature import Types, count_arguments
from headgate.graph.expressions import Expr
from headgate.graph.operators import AggregateCall
from headgate.graph.types import BIGINT

_DEVIATION = "0.05"
"""Spark's default of the relative standard deviation."""


def _approximate(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 1)
    check_comparable(name, types)
    return AggregateSignature(name, types, BIGINT, _DEVIATION)


@aggregate("approx_count_distinct", types=_approximate, distinct=False)
def _approx_count_distinct(call: AggregateCall, args: tuple[Expr, ...]) -> ApproximateCount:
    return ApproximateCount(args, float(call.option or _DEVIATION))


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
        return [self._highest(groups.ids[list_of_each(state[0])], entries, groups.size)]

    @staticmethod
    def _highest(ids: Ints, entries: npt.NDArray[np.uint64], size: int) -> pa.Array:
        """Of the entries of a group with the same register, the one with the highest value."""
        order = np.lexsort((entries, ids))
        ids, entries = ids[order], entries[order]
        register = entries >> np.uint64(8)
        last = np.ones(len(ids), bool)
        last[:-1] = (ids[1:] != ids[:-1]) | (register[1:] != register[:-1])
        return lists_by_owner(ids[last], pa.array(entries[last]), size)

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        size, registers = len(state[0]), 1 << self._bits
        owners = list_of_each(state[0])
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

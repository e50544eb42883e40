"""Variance, standard deviation, skewness, kurtosis, covariance and correlation by central moments.

States are (count, means, sums of powers of the distances from the mean) and merge by the pairwise update of Chan,
Golub and LeVeque (1979), which never subtracts large sums. The mean is clamped to the range of the values, so that the
variance of equal values is zero, as in Spark: in floating point, 1.39 + 1.39 + 1.39 is not three times 1.39.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.aggregates.grouping import Groups, Reduction, Rounds, count, total
from headgate.expressions.aggregates.registry import aggregate
from headgate.expressions.aggregates.signature import AggregateRule, AggregateSignature
from headgate.expressions.coercion import implicit
from headgate.expressions.signature import Types, count_arguments
from headgate.graph.expressions import Expr
from headgate.graph.operators import AggregateCall
from headgate.graph.types import DOUBLE

Floats = npt.NDArray[np.float64]


def _doubles(count: int) -> AggregateRule:
    def rule(name: str, types: Types) -> AggregateSignature:
        count_arguments(name, types, count)
        return AggregateSignature(name, tuple(implicit(name, i, t, DOUBLE) for i, t in enumerate(types)), DOUBLE)

    return rule


@aggregate(
    *("stddev_samp", "stddev_pop", "var_samp", "var_pop", "skewness", "kurtosis"),
    types=_doubles(1),
    aliases={"std": "stddev_samp", "stddev": "stddev_samp", "variance": "var_samp"},
)
def _moments(call: AggregateCall, args: tuple[Expr, ...]) -> Moments:
    return Moments(args, call.name)


@aggregate("covar_samp", "covar_pop", types=_doubles(2))
@aggregate("corr", types=_doubles(2), distinct=False)
def _comoments(call: AggregateCall, args: tuple[Expr, ...]) -> CoMoments:
    return CoMoments(args, call.name)


class Moments:
    """One input: its count, mean and central moments up to `degree`, not divided by the count."""

    needs_ids = True
    needs_order = False

    def __init__(self, inputs: tuple[Expr, ...], name: str) -> None:
        self.inputs = inputs
        self._name = name
        self._degree = {"skewness": 3, "kurtosis": 4}.get(name, 2)
        self.types = (pa.int64(),) + (pa.float64(),) * self._degree

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        values = inputs[0].cast(pa.float64(), safe=False)
        counts, *found = yield [count(values), *_spread(values)]
        mean = _mean(counts, found)
        away = pc.subtract(values, groups.spread(pa.array(mean)))
        powers = yield [total(_power(away, degree)) for degree in range(2, self._degree + 1)]
        return [counts, pa.array(mean), *(_zeroed(p) for p in powers)]

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        n, means = state[0], state[1]
        counts, *found = yield [total(n), *_spread(means, n)]
        mean = _mean(counts, found)
        weight = n.to_numpy().astype(np.float64)
        away = means.to_numpy(zero_copy_only=False) - mean[groups.ids]
        away = np.where(weight > 0, away, 0.0)
        m = [column.to_numpy(zero_copy_only=False) for column in state[2:]]
        shifted = [m[0] + weight * away**2]
        if self._degree > 2:
            shifted.append(m[1] + 3 * away * m[0] + weight * away**3)
        if self._degree > 3:
            shifted.append(m[2] + 4 * away * m[1] + 6 * away**2 * m[0] + weight * away**4)
        sums_of_powers = yield [total(pa.array(column)) for column in shifted]
        return [counts, pa.array(mean), *sums_of_powers]

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        n = state[0].to_numpy().astype(np.float64)
        m2, *more = (column.to_numpy(zero_copy_only=False) for column in state[2:])
        with np.errstate(divide="ignore", invalid="ignore"):
            if self._name in ("skewness", "kurtosis"):
                if self._name == "skewness":
                    below = np.sqrt(m2**3)
                    value = np.sqrt(n) * more[0] / below
                else:
                    below = m2 * m2
                    value = n * more[1] / below - 3.0
                # As in Spark: both are NULL if the variance is zero.
                return pa.array(value, mask=(n == 0) | (below == 0))
            sample = self._name.endswith("_samp")
            value = m2 / (n - 1 if sample else n)
            if self._name.startswith("stddev"):
                value = np.sqrt(value)
        return pa.array(value, mask=n <= (1 if sample else 0))


class CoMoments:
    """Two inputs: covariance and correlation over the rows in which neither is null."""

    needs_ids = True
    needs_order = False

    def __init__(self, inputs: tuple[Expr, ...], name: str) -> None:
        self.inputs = inputs
        self._name = name
        self.types = (pa.int64(),) + (pa.float64(),) * 5

    def partial(self, inputs: Sequence[pa.Array], groups: Groups) -> Rounds:
        both = pc.and_(pc.is_valid(inputs[0]), pc.is_valid(inputs[1]))
        nothing = pa.scalar(None, pa.float64())
        x, y = (pc.if_else(both, values.cast(pa.float64(), safe=False), nothing) for values in inputs)
        counts, *found = yield [count(x), *_spread(x), *_spread(y)]
        mean_x, mean_y = _mean(counts, found[:3]), _mean(counts, found[3:])
        dx = pc.subtract(x, groups.spread(pa.array(mean_x)))
        dy = pc.subtract(y, groups.spread(pa.array(mean_y)))
        sums = yield [total(pc.multiply(a, b)) for a, b in ((dx, dy), (dx, dx), (dy, dy))]
        return [counts, pa.array(mean_x), pa.array(mean_y), *(_zeroed(s) for s in sums)]

    def merge(self, state: Sequence[pa.Array], groups: Groups) -> Rounds:
        n, x, y = state[:3]
        counts, *found = yield [total(n), *_spread(x, n), *_spread(y, n)]
        mean_x, mean_y = _mean(counts, found[:3]), _mean(counts, found[3:])
        weight = n.to_numpy().astype(np.float64)
        dx = np.where(weight > 0, x.to_numpy(zero_copy_only=False) - mean_x[groups.ids], 0.0)
        dy = np.where(weight > 0, y.to_numpy(zero_copy_only=False) - mean_y[groups.ids], 0.0)
        moved = [
            column.to_numpy(zero_copy_only=False) + weight * a * b
            for column, a, b in zip(state[3:], (dx, dx, dy), (dy, dx, dy), strict=True)
        ]
        sums = yield [total(pa.array(column)) for column in moved]
        return [counts, pa.array(mean_x), pa.array(mean_y), *sums]

    def result(self, state: Sequence[pa.Array]) -> pa.Array:
        n = state[0].to_numpy().astype(np.float64)
        xy, xx, yy = (column.to_numpy(zero_copy_only=False) for column in state[3:])
        with np.errstate(divide="ignore", invalid="ignore"):
            if self._name == "corr":
                # As in Spark: the correlation of one pair, or of a constant, is NULL.
                below = np.sqrt(xx * yy)
                return pa.array(xy / below, mask=(n <= 1) | (below == 0))
            sample = self._name == "covar_samp"
            return pa.array(xy / (n - 1 if sample else n), mask=n <= (1 if sample else 0))


def _spread(values: pa.Array, weights: pa.Array | None = None) -> list[Reduction]:
    """The reductions that `_mean` needs: sum, minimum and maximum; values with weight zero are ignored."""
    if weights is None:
        return [total(values), Reduction(values, "min"), Reduction(values, "max")]
    present = pc.if_else(pc.greater(weights, 0), values, pa.scalar(None, pa.float64()))
    weighted = pc.multiply(weights.cast(pa.float64(), safe=False), present)
    return [total(weighted), Reduction(present, "min"), Reduction(present, "max")]


def _mean(counts: pa.Array, found: Sequence[pa.Array]) -> Floats:
    """The mean of each group, clamped to the range of its values; 0 if the group has no value."""
    sums, low, high = (pc.fill_null(column, 0.0).to_numpy() for column in found)
    return np.asarray(np.clip(sums / np.maximum(counts.to_numpy(), 1), low, high), np.float64)


def _power(values: pa.Array, degree: int) -> pa.Array:
    power = values
    for _ in range(degree - 1):
        power = pc.multiply(power, values)
    return power


def _zeroed(values: pa.Array) -> pa.Array:
    return pc.fill_null(values, 0.0)

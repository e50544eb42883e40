"""The rank of rows in their partitions by an order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.aggregates.grouping import Groups
from headgate.expressions.keys import ranks
from headgate.graph.operators import Order

Ints = npt.NDArray[np.int64]


def ranked(
    partition: Sequence[pa.Array],
    values: Sequence[pa.Array],
    order: Sequence[Order],
    ranking: str,
    rows: int,
    ties: Sequence[pa.Array] = (),
) -> Ints:
    """The row_number, rank or dense_rank of each row. `partition`: flat keys; `values`: those of the terms of `order`.

    Of rows that are equal in the order, those with lower `ties` have lower row numbers, and then the earlier ones.
    """
    of_partition = _numbers(partition, rows)
    terms = [places(column, term) for column, term in zip(values, order, strict=True)]
    last = [np.where(pc.is_null(column).to_numpy(zero_copy_only=False), 0, ranks(column)) for column in ties]
    arranged = np.lexsort((*reversed(last), *reversed(terms), of_partition))
    ids = of_partition[arranged]
    begins = np.r_[True, ids[1:] != ids[:-1]]
    number = np.arange(rows)
    start = np.maximum.accumulate(np.where(begins, number, 0))
    if ranking == "row_number":
        found = number - start + 1
    else:
        differs = begins.copy()
        for term in terms:
            differs[1:] |= term[arranged][1:] != term[arranged][:-1]
        if ranking == "rank":
            found = np.maximum.accumulate(np.where(differs, number, 0)) - start + 1
        else:
            dense = np.cumsum(differs)
            found = dense - dense[start] + 1
    of_rows = np.empty(rows, np.int64)
    of_rows[arranged] = found
    return of_rows


def _numbers(partition: Sequence[pa.Array], rows: int) -> Ints:
    """The number of each row's partition; without keys there is one partition."""
    if not partition:
        return np.zeros(rows, np.int64)
    groups = Groups(list(partition), rows)
    groups.reduce([], ids=True)
    return groups.ids


def places(column: pa.Array, term: Order) -> Ints:
    """The place of each value in the order of one term: equal values have equal places."""
    found: Ints = ranks(column)
    if term.descending:
        found = -found
    if column.null_count:
        outside = np.iinfo(np.int64).min if term.nulls_first else np.iinfo(np.int64).max
        found = np.where(pc.is_null(column).to_numpy(zero_copy_only=False), outside, found)
    return found

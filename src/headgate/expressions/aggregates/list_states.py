"""States that are lists: one list per group, so that sets merge like any other state."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]


def list_of_each(lists: pa.ListArray) -> Ints:
    """For each element, the index of the list that holds it."""
    return np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy())


def lists_by_owner(owners: Ints, values: pa.Array, size: int) -> pa.ListArray:
    """One list per owner; the values must be sorted by owner."""
    offsets = np.searchsorted(owners, np.arange(size + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)

"""States that are lists: one list a group, so that sets merge as any other state does."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]


def list_of_each(lists: pa.ListArray) -> Ints:
    """For each element of the lists, which list it is in."""
    return np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy())


def lists_by_owner(owners: Ints, values: pa.Array, size: int) -> pa.ListArray:
    """Lists of values that stand in the order of their owners."""
    offsets = np.searchsorted(owners, np.arange(size + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)

"""Changes of the rows of a query that updates: a row replaces the earlier one with the same identity, or deletes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.keys import one_chunk


def last_of_each(changes: pa.Table, identity: Sequence[int]) -> pa.Table:
    """The last change of each identity, given the positions of its flat columns."""
    rows = changes.num_rows
    if rows <= 1:
        return changes
    if not identity:
        return changes.slice(rows - 1)
    names = [f"k{i}" for i in range(len(identity))]
    keys = [one_chunk(changes.column(place)) for place in identity]
    places = pa.table([*keys, pa.array(np.arange(rows))], [*names, "place"])
    last = places.group_by(names, use_threads=False).aggregate([("place", "max")])["place_max"]
    if len(last) == rows:
        return changes
    return changes.take(one_chunk(last)).combine_chunks()


def flags(column: pa.ChunkedArray) -> np.ndarray:
    """A BOOLEAN column as a mask; a null is false."""
    return np.asarray(pc.fill_null(one_chunk(column), False).to_numpy(zero_copy_only=False), bool)

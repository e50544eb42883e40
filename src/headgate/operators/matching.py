"""Equality of keys between new rows and stored rows, on flat key columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.hashing import Hashes
from headgate.expressions.keys import equal, one_chunk
from headgate.operators.runs import Run

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Matcher:
    """Finds the rows of a run whose keys equal given ones. `places`: positions of the flat keys in a run's table."""

    def __init__(self, types: Sequence[pa.DataType], places: Sequence[int], nulls_equal: bool) -> None:
        self._places = list(places)
        self._nulls_equal = nulls_equal
        # The hash of a single number of at most 64 bits is one to one, so equal hashes are equal keys.
        self._exact = not nulls_equal and len(types) == 1 and _narrow(types[0])

    def pairs(self, run: Run, keys: Sequence[pa.Array], hashes: Hashes) -> Iterator[tuple[Ints, Ints]]:
        """Pairs (position among the keys, row of the run) with equal keys, in chunks."""
        # A null's hash is a constant, which is the hash of a number, too.
        exact = self._exact and not run.table.column(self._places[0]).null_count
        for probes, rows in run.candidates(hashes):
            if exact:
                yield probes, rows
                continue
            same = np.ones(len(probes), bool)
            at_probes, at_rows = pa.array(probes), pa.array(rows)
            for place, key in zip(self._places, keys, strict=True):
                kept = one_chunk(run.table.column(place))
                same &= equal(key.take(at_probes), kept.take(at_rows), self._nulls_equal)
            yield (probes, rows) if same.all() else (probes[same], rows[same])


def without_nulls(keys: Sequence[pa.Array], rows: int) -> Flags:
    """The rows without a null in any of the keys (before they are flattened): only these meet others in a join."""
    found = np.ones(rows, bool)
    for key in keys:
        if key.null_count:
            found &= pc.is_valid(key).to_numpy(zero_copy_only=False)
    return found


def _narrow(type_: pa.DataType) -> bool:
    return not (pa.types.is_string(type_) or pa.types.is_binary(type_)) and bool(type_.bit_width <= 64)

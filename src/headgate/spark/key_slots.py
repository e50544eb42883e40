"""Key ranges: a key has a slot by its hash, and the table of a placement names the replica that owns each slot.

The number of slots is a multiple of the number of replicas. So the even table, where slot i belongs to replica i modulo
their number, gives every key to the hash modulo the number of replicas: as placements did before they had tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.expressions.hashing import hashed
from headgate.expressions.keys import flatten
from headgate.expressions.xxhash64 import xxhash64
from headgate.graph.operators.source import INTERNAL
from headgate.spark.placement import Placement

Ints = npt.NDArray[np.int64]

ROWS = f"{INTERNAL}rows"
"""Part of the name of internal streams (`exchange.py`) whose rows are no partial results: they meet those of declared
streams, so their keys have the same hash."""


def slots(stream: str, keys: Sequence[pa.Array], count: int) -> Ints:
    """The slot, of so many, of each row of a stream by its keys: the same as Catalyst's (`routing.owner`). The rows of
    partial results do not pass through Spark, nor meet others, and have another hash."""
    rows = len(keys[0])
    if INTERNAL in stream and ROWS not in stream:
        return (hashed(flatten(keys), rows) % np.uint64(count)).astype(np.int64)
    return np.mod(xxhash64(keys, rows), count)


def owners(placement: Placement, stream: str, keys: Sequence[pa.Array]) -> Ints:
    """The replica that owns each row of a stream."""
    table = np.array(placement.table, np.int64)
    return table[slots(stream, keys, len(table))]

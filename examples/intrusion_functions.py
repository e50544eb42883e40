"""The Python function of the intrusion example: how much a packet looks like a probe."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_USUAL = pa.array([22, 25, 53, 80, 443, 3306, 5432, 8080], pa.int32())


def suspicion(port: pa.Array, length: pa.Array, flags: pa.Array) -> pa.Array:
    """From 0 (usual) to 1: an unusual port, a packet without content, and only the flag S."""
    unusual = pc.invert(pc.is_in(port, _USUAL)).cast(pa.float64())
    empty = pc.less_equal(length, 60).cast(pa.float64())
    opening = pc.equal(flags, "S").cast(pa.float64())
    return pc.divide(pc.add(pc.add(unusual, empty), opening), 3.0)

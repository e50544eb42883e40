"""Python functions of the tests on Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def picky(values: pa.Array) -> pa.Array:
    """Raises on the value 1000."""
    if pc.any(pc.equal(values, 1000)).as_py():
        raise ValueError("row 1000 is one too many")
    return values

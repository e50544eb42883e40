"""Python functions of the tests on Spark."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc


def picky(values: pa.Array) -> pa.Array:
    """Raises on the value 1000."""
    if pc.any(pc.equal(values, 1000)).as_py():
        raise ValueError("row 1000 is one too many")
    return values


def slowly(values: pa.Array) -> pa.Array:
    """0 for every value, after a wait of 5 ms a row: costly without using the processor."""
    time.sleep(0.005 * len(values))
    return pa.array([0] * len(values), pa.int32())


def rarely(values: pa.Array) -> pa.Array:
    """0 for one value in 20, else 1."""
    return pa.array([int(value % 20 != 0) for value in values.to_pylist()], pa.int32())

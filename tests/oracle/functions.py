"""Python functions that the case files declare with CREATE FUNCTION."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def risk(t: pa.Array, h: pa.Array) -> pa.Array:
    """Temperature less half the humidity."""
    return pc.subtract(pc.cast(t, pa.float64()), pc.divide(pc.cast(h, pa.float64()), 2.0))


def shout(t: pa.Array) -> pa.Array:
    """Upper case and an exclamation mark."""
    return pc.binary_join_element_wise(pc.utf8_upper(t), "!", "")

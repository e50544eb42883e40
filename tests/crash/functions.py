"""The Python function of the crash test's script."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def doubled(values: pa.Array) -> pa.Array:
    """Twice each value."""
    return pc.multiply(values, pa.scalar(2, pa.int32()))

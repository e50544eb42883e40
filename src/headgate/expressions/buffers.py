"""Arrow arrays as numpy arrays and back without copying; nulls are a separate mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers = Any
"""A numpy array. Its operators are typed too loosely (or too narrowly) to be checked further."""

_DTYPES: dict[pa.DataType, type[np.generic]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
    pa.date32(): np.int32,
}


def numbers(array: pa.Array) -> Numbers:
    """The stored values; undefined where the array is null."""
    dtype = _DTYPES.get(array.type, np.int64)
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * np.dtype(dtype).itemsize)


def nulls(*arrays: pa.Array) -> Numbers | None:
    """Where any of the arrays is null; None if nowhere."""
    found: Numbers | None = None
    for array in arrays:
        if array.null_count:
            here = pc.is_null(array).to_numpy(zero_copy_only=False)
            found = here if found is None else found | here
    return found


def rebuilt(values: Numbers, type_: pa.DataType, missing: Numbers | None = None) -> pa.Array:
    """An Arrow array of these values, null where `missing` is true."""
    values = np.ascontiguousarray(values, _DTYPES.get(type_, np.int64))
    validity = None
    if missing is not None and missing.any():
        validity = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(values)])


def as_bools(array: pa.BooleanArray) -> Numbers:
    """A boolean Arrow array without nulls as a numpy array."""
    return array.to_numpy(zero_copy_only=False).astype(bool)

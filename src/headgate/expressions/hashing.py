"""A 64-bit hash of flat key columns, vectorized. It is the same on every machine and in every run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_BASE = 0x5851F42D4C957F2D  # odd, so that it has an inverse modulo 2**64
_INVERSE = pow(_BASE, -1, 2**64)
_BYTES = np.random.Generator(np.random.PCG64(20020)).integers(0, 2**64, 256, np.uint64, endpoint=False)


def hashed(flat: Sequence[pa.Array], rows: int) -> Hashes:
    """One hash per row over all columns; equal keys have equal hashes, nulls included.

    >>> bool((hashed([pa.array([1, 2])], 2) == hashed([pa.array([1, 2])], 2)).all())
    True
    >>> hashed([pa.array([], pa.decimal128(10, 2))], 0).tolist()
    []
    """
    total = np.zeros(rows, np.uint64)
    for column in flat:
        total = _mixed(total * _FIRST + _column(column))
    return total


def _mixed(values: Hashes) -> Hashes:
    """The finalizer of splitmix64: every bit of the input changes every bit of the output."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _column(column: pa.Array) -> Hashes:
    if not column.null_count:
        return _values(column)
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return np.where(valid, _values(column), _NULL)


def _values(column: pa.Array) -> Hashes:
    type_ = column.type
    if pa.types.is_boolean(type_):
        return np.asarray(pc.fill_null(column, False).cast(pa.uint8()).to_numpy(), np.uint64)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _bytes(column)
    width = type_.bit_width // 8
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), np.uint64)
    start = column.offset * width
    if width > 8:
        lanes = np.frombuffer(data, np.uint64, len(column) * width // 8, start).reshape(len(column), width // 8)
        total = lanes[:, 0]
        for lane in range(1, lanes.shape[1]):
            total = _mixed(total) + lanes[:, lane]
        return total
    return np.frombuffer(data, np.dtype(f"u{width}"), len(column), start).astype(np.uint64)


class _Powers:
    """The powers of the base and of its inverse, extended when a longer text is hashed. Thread-safe."""

    def __init__(self) -> None:
        # One tuple, replaced as a whole: another thread may read it meanwhile.
        self._known = (np.ones(1, np.uint64), np.ones(1, np.uint64))

    def up_to(self, length: int) -> tuple[Hashes, Hashes]:
        """At least `length` powers of both."""
        known = self._known
        if length > len(known[0]):
            size = max(length, 2 * len(known[0]), 1 << 16)
            self._known = known = (self._grown(_BASE, size), self._grown(_INVERSE, size))
        return known

    @staticmethod
    def _grown(base: int, size: int) -> Hashes:
        factors = np.full(size, base, np.uint64)
        factors[0] = 1
        return np.cumprod(factors, dtype=np.uint64)


_POWERS = _Powers()


def _bytes(column: pa.Array) -> Hashes:
    """A polynomial in the base over the bytes of each text: differences of one running sum over all texts.

    A text from byte s to byte e hashes to the sum of T[byte i] * base**(i - s), T being a fixed random table.
    """
    _, places, data = column.buffers()
    offsets = np.frombuffer(places, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    if data is None or last == first:
        return np.zeros(len(column), np.uint64)
    up, down = _POWERS.up_to(last - first + 1)
    raw = np.frombuffer(data, np.uint8, last - first, first)
    running = np.zeros(last - first + 1, np.uint64)
    np.cumsum(_BYTES[raw] * up[: last - first], out=running[1:])
    offsets -= first
    spans = (running[offsets[1:]] - running[offsets[:-1]]) * down[offsets[:-1]]
    return spans + (offsets[1:] - offsets[:-1]).astype(np.uint64)

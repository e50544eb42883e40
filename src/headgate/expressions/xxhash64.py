"""Spark's `xxhash64` of key columns, vectorized: finds the owner of a key without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.keys import normalized

Words = npt.NDArray[np.uint64]

_SEED = 42
_EXACT = Context(prec=76)
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_STRIPE = 32
_LONG_DIGITS = 18
"""Decimals with more digits than a long has are hashed as bytes."""


def xxhash64(keys: Sequence[pa.Array], rows: int) -> npt.NDArray[np.int64]:
    """`xxhash64(key, …)` of every row, as Spark SQL computes it.

    >>> xxhash64([pa.array(["Spark"]), pa.array([123], pa.int32())], 1).tolist()
    [-7770970918500510695]
    """
    found = np.full(rows, _SEED, np.uint64)
    for column in keys:
        found = _with(found, column)
    return found.view(np.int64)


def _with(seeds: Words, column: pa.Array) -> Words:
    """The hash of a further column, begun at the hash of those before it. A null leaves that as it is."""
    if pa.types.is_null(column.type) or not len(column):
        return seeds
    if column.null_count:
        valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
        found = seeds.copy()
        found[valid] = _with(seeds[valid], column.drop_null())
        return found
    if pa.types.is_struct(column.type):
        for member in column.flatten():
            seeds = _with(seeds, member)
        return seeds
    if _is_bytes(column.type):
        return _of_texts(seeds, column)
    if pa.types.is_decimal(column.type):
        return _of_decimals(seeds, column)
    if pa.types.is_boolean(column.type):
        return _of_ints(seeds, column.cast(pa.int32()).to_numpy())
    if pa.types.is_floating(column.type):
        column = normalized(column)
    if column.type.bit_width == 64:
        values = column.view(pa.int64()).to_numpy()
        # Catalyst has nanoseconds.
        return _of_longs(seeds, values * 1000 if pa.types.is_time(column.type) else values)
    if column.type.bit_width == 32:
        column = column.view(pa.int32())
    return _of_ints(seeds, column.to_numpy())


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _of_ints(seeds: Words, values: npt.NDArray[np.int32]) -> Words:
    return _mixed(_with_int(seeds + _P5 + np.uint64(4), values.astype(np.int32).view(np.uint32).astype(np.uint64)))


def _of_longs(seeds: Words, values: npt.NDArray[np.int64]) -> Words:
    return _mixed(_with_long(seeds + _P5 + np.uint64(8), values.view(np.uint64)))


def _of_decimals(seeds: Words, column: pa.Array) -> Words:
    width = column.type.bit_width // 8
    data = np.frombuffer(column.buffers()[1], np.int64, len(column) * width // 8, column.offset * width)
    if column.type.precision <= _LONG_DIGITS:
        return _of_longs(seeds, np.ascontiguousarray(data.reshape(-1, width // 8)[:, 0]))
    # The fewest bytes in two's complement, as Java writes a large number.
    scale = column.type.scale
    whole = [int(value.scaleb(scale, _EXACT)) for value in column.to_pylist()]
    texts = [n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True) for n in whole]
    return _of_texts(seeds, pa.array(texts, pa.binary()))


def _of_texts(seeds: Words, column: pa.Array) -> Words:
    """Texts of equal length at a time."""
    _, places, data = column.buffers()
    offsets = np.frombuffer(places, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    found = np.empty(len(column), np.uint64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        texts = raw[offsets[rows][:, None] + np.arange(length)]
        found[rows] = _of_bytes(seeds[rows], texts)
    return found


def _of_bytes(seeds: Words, texts: npt.NDArray[np.uint8]) -> Words:
    """Texts of one length: a row of bytes each."""
    length = texts.shape[1]
    words = np.ascontiguousarray(texts[:, : length & -8]).view("<u8").reshape(len(texts), -1)
    place = length // _STRIPE * (_STRIPE // 8)
    found = _of_stripes(seeds, words[:, :place]) if place else seeds + _P5
    found = found + np.uint64(length)
    for number in range(place, words.shape[1]):
        found = _with_long(found, words[:, number])
    rest = length & -8
    if rest + 4 <= length:
        part = np.ascontiguousarray(texts[:, rest : rest + 4]).view("<u4")[:, 0]
        found = _with_int(found, part.astype(np.uint64))
        rest += 4
    for number in range(rest, length):
        found = _rotated(found ^ texts[:, number].astype(np.uint64) * _P5, 11) * _P1
    return _mixed(found)


def _of_stripes(seeds: Words, words: Words) -> Words:
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds, seeds - _P1]
    for start in range(0, words.shape[1], 4):
        for place in range(4):
            lanes[place] = _rotated(lanes[place] + words[:, start + place] * _P2, 31) * _P1
    found = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
    for lane in lanes:
        found = (found ^ _rotated(lane * _P2, 31) * _P1) * _P1 + _P4
    return found


def _with_int(found: Words, values: Words) -> Words:
    return _rotated(found ^ values * _P1, 23) * _P2 + _P3


def _with_long(found: Words, values: Words) -> Words:
    return _rotated(found ^ _rotated(values * _P2, 31) * _P1, 27) * _P1 + _P4


def _rotated(values: Words, by: int) -> Words:
    return values << np.uint64(by) | values >> np.uint64(64 - by)


def _mixed(values: Words) -> Words:
    values = (values ^ values >> np.uint64(33)) * _P2
    values = (values ^ values >> np.uint64(29)) * _P3
    return values ^ values >> np.uint64(32)

"""Key columns in a form that can be grouped, hashed and compared: structs flattened, floating-point numbers normalized.

As in Spark, -0.0 equals 0.0 and NaN equals NaN wherever values are keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.types import sql_name


def flat_types(types: Sequence[pa.DataType]) -> list[pa.DataType]:
    """The types of the columns that `flatten` returns.

    >>> [str(t) for t in flat_types([pa.struct([("start", pa.int64())]), pa.string()])]
    ['bool', 'int64', 'string']
    """
    flat: list[pa.DataType] = []
    for type_ in types:
        if pa.types.is_struct(type_):
            flat += [pa.bool_(), *flat_types([part.type for part in type_])]
        elif pa.types.is_nested(type_):
            raise ValueError(f"a column of type {sql_name(type_)} cannot be a key; use one of its elements instead")
        elif pa.types.is_null(type_):
            flat.append(pa.bool_())
        else:
            flat.append(type_)
    return flat


def flatten(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Key columns as flat, normalized ones. A struct becomes a flag (true: not null) and its members."""
    flat: list[pa.Array] = []
    for column in columns:
        if pa.types.is_struct(column.type):
            flat += [pc.is_valid(column), *flatten(column.flatten())]
        elif pa.types.is_floating(column.type):
            flat.append(normalized(column))
        elif pa.types.is_null(column.type):
            flat.append(column.cast(pa.bool_()))
        else:
            flat.append(column)
    return flat


def rebuild(flat: Sequence[pa.Array], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """The inverse of `flatten`."""
    source = iter(flat)
    return [_rebuilt(source, type_) for type_ in types]


def _rebuilt(source: Iterator[pa.Array], type_: pa.DataType) -> pa.Array:
    if pa.types.is_null(type_):
        return pa.nulls(len(next(source)))
    if not pa.types.is_struct(type_):
        return next(source)
    valid = next(source)
    members = [_rebuilt(source, part.type) for part in type_]
    mask = pc.invert(valid) if valid.false_count else None
    return pa.StructArray.from_arrays(members, fields=list(type_), mask=mask)


def normalized(column: pa.Array) -> pa.Array:
    """Floating-point numbers with one zero and one NaN."""
    if column.null_count:
        clean = normalized(pc.fill_null(column, 0.0))
        return pc.if_else(pc.is_valid(column), clean, pa.scalar(None, column.type))
    values = column.to_numpy(zero_copy_only=False) + 0.0  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    return pa.array(values.astype(column.type.to_pandas_dtype(), copy=False))


def equal(first: pa.Array, second: pa.Array, nulls_equal: bool) -> np.ndarray:
    """Where two normalized columns hold the same value."""
    if pa.types.is_floating(first.type):
        width = pa.int64() if first.type.bit_width == 64 else pa.int32()
        same = pc.equal(first.view(width), second.view(width))
    else:
        same = pc.equal(first, second)
    if same.null_count:
        same = pc.fill_null(same, False)
        if nulls_equal:
            same = pc.or_(same, pc.and_(pc.is_null(first), pc.is_null(second)))
    return np.asarray(same.to_numpy(zero_copy_only=False))


def ordered(column: pa.Array) -> pa.Array:
    """Floating-point numbers and intervals as integers in Spark's order (NaN is the largest); other columns unchanged.

    >>> ordered(pa.array([1.5, float("nan"), -2.0, None])).to_pylist()[1] > ordered(pa.array([1e308])).to_pylist()[0]
    True
    """
    if pa.types.is_duration(column.type):
        return column.view(pa.int64())  # Acero has no extremes of intervals
    if not pa.types.is_floating(column.type):
        return column
    wide = column.cast(pa.float64())
    if wide.null_count:
        clean = ordered(pc.fill_null(wide, 0.0))
        return pc.if_else(pc.is_valid(wide), clean, pa.scalar(None, pa.int64()))
    bits = normalized(wide).to_numpy().view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits))


def ranks(column: pa.Array) -> np.ndarray:
    """The rank of each value in Spark's order; equal values have equal ranks, the rank of a null is arbitrary.

    Structs are compared member by member; a null member is the smallest.

    >>> ranks(pa.array([{"a": 1, "b": "y"}, {"a": 1, "b": None}, {"a": 0, "b": "z"}])).tolist()
    [3, 2, 1]
    """
    if not pa.types.is_struct(column.type):
        if pa.types.is_null(column.type):
            return np.zeros(len(column), np.int64)
        found = pc.rank(ordered(column), sort_keys="ascending", tiebreaker="dense")
        return np.asarray(found.to_numpy(), np.int64)
    terms = [np.zeros(len(column), np.int64)]
    for member in column.flatten():
        valid = pc.is_valid(member).to_numpy(zero_copy_only=False)
        terms.append(np.where(valid, ranks(member), 0))
    order = np.lexsort(tuple(reversed(terms)))
    differs = np.ones(len(column), bool)
    differs[1:] = np.any([term[order][1:] != term[order][:-1] for term in terms], axis=0)
    places = np.empty(len(column), np.int64)
    places[order] = np.cumsum(differs)
    return places


def unordered(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """The inverse of `ordered`."""
    if pa.types.is_duration(type_):
        return column.view(type_)
    if not pa.types.is_floating(type_):
        return column
    if column.null_count:
        clean = unordered(pc.fill_null(column, 0), pa.float64())
        return pc.if_else(pc.is_valid(column), clean, pa.scalar(None, pa.float64())).cast(type_)
    bits = column.to_numpy(zero_copy_only=False)
    values = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits).view(np.float64)
    return pa.array(values).cast(type_)


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one chunk."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column

"""Structs, arrays and maps: making them, and reaching into them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.errors import EvaluationError
from headgate.expressions.kernels.comparison import equal
from headgate.expressions.registry import Kernel, Value, arrays, arrow, kernel
from headgate.graph.expressions import Call, Literal
from headgate.graph.types import BOOLEAN, INT


@kernel("field")
def _field(call: Call) -> Kernel:
    struct = call.args[0].type
    index = [struct.field(i).name.lower() for i in range(struct.num_fields)].index(call.option.lower())
    # struct_field carries the struct's nulls into the member.
    return arrow("struct_field", pc.StructFieldOptions([index]))


@kernel("struct", "named_struct")
def _struct(call: Call) -> Kernel:
    step = 2 if call.name == "named_struct" else 1
    fields = list(call.type)

    def build(*args: Value) -> Value:
        members = arrays(*args)[step - 1 :: step]
        return pa.StructArray.from_arrays(members, fields=fields)

    return build


@kernel("array")
def _array(call: Call) -> Kernel:
    def build(*args: Value) -> Value:
        columns = arrays(*args)
        rows, width = len(columns[0]), len(columns)
        # Row by row: element i of every column in turn.
        order = (np.arange(rows)[:, None] + np.arange(width)[None, :] * rows).reshape(-1)
        values = pa.concat_arrays(columns).take(pa.array(order))
        return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * width, INT), values, call.type)

    return build


@kernel("size")
def _size(call: Call) -> Kernel:
    """NULL for a null array or map, as in ANSI mode."""
    if not pa.types.is_map(call.args[0].type):
        return arrow("list_value_length")

    def run(value: Value) -> Value:
        (array,) = arrays(value)
        return rebuilt(_sizes(array), INT, nulls(array))

    return run


def _sizes(array: pa.Array) -> Numbers:
    ends = numbers(array.offsets).astype(np.int64)
    return ends[1:] - ends[:-1]


def _out_of_bounds(index: int, size: int, first: int) -> EvaluationError:
    return EvaluationError(
        "INVALID_ARRAY_INDEX_IN_ELEMENT_AT" if first else "INVALID_ARRAY_INDEX",
        f"The index {index} is out of bounds. The array has {size} elements. Use "
        f"{'`try_element_at`' if first else 'the SQL function `get()`'} to tolerate accessing element at invalid index "
        "and return NULL instead.",
    )


def _element_of_list(columns: list[pa.Array], first: int) -> pa.Array:
    lists, index = columns
    missing = nulls(lists, index)
    starts = numbers(lists.offsets).astype(np.int64)[:-1]
    sizes, wanted = _sizes(lists), numbers(index).astype(np.int64)
    place = np.where(wanted < 0, sizes + wanted, wanted - first) if first else wanted
    outside = (place < 0) | (place >= sizes)
    if first:
        outside |= wanted == 0
    bad = outside if missing is None else outside & ~missing
    if bad.any():
        row = int(np.argmax(bad))
        if first and wanted[row] == 0:
            raise EvaluationError(
                "INVALID_INDEX_OF_ZERO", "The index 0 is invalid. An index shall be either < 0 or > 0 (from 1)."
            )
        raise _out_of_bounds(int(wanted[row]), int(sizes[row]), first)
    gone = outside if missing is None else outside | missing
    return lists.values.take(rebuilt(np.where(gone, 0, starts + place), pa.int64(), gone))


@kernel("element")
def _element(call: Call) -> Kernel:
    """`a[i]` from 0; `m[k]` is NULL for a key that is not there."""
    container = call.args[0].type
    if pa.types.is_map(container):
        key = call.args[1]
        if not isinstance(key, Literal) or key.value is None:
            return lambda value, _: pa.nulls(len(arrays(value)[0]), call.type)
        run = arrow("map_lookup", pc.MapLookupOptions(pa.scalar(key.value, key.type), "first"))
        return lambda value, _: run(value)
    return lambda value, index: _element_of_list(arrays(value, index), 0)


@kernel("element_at")
def _element_at(call: Call) -> Kernel:
    if pa.types.is_map(call.args[0].type):
        return _element(call)
    return lambda value, index: _element_of_list(arrays(value, index), 1)


@kernel("array_contains")
def _array_contains(call: Call) -> Kernel:
    """NULL where it is not among the elements but a null is."""
    type_ = call.args[1].type

    def run(value: Value, wanted: Value) -> Value:
        lists, sought = arrays(value, wanted)
        rows = len(lists)
        parents = pc.list_parent_indices(lists)
        flat = lists.flatten()
        same = equal(flat, sought.take(parents), type_)
        owner = parents.to_numpy(zero_copy_only=False).astype(np.int64)
        hits = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
        found = np.bincount(owner[hits], minlength=rows) > 0
        holes = np.bincount(owner[pc.is_null(flat).to_numpy(zero_copy_only=False)], minlength=rows) > 0
        unknown = ~found & holes
        missing = nulls(lists, sought)
        return pa.array(found, BOOLEAN, mask=unknown if missing is None else unknown | missing)

    return run

"""Structs, arrays and maps: constructors and access to elements."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import Numbers, nulls, numbers, rebuilt
from headgate.expressions.coercion import common_type, is_atomic
from headgate.expressions.comparison import equal
from headgate.expressions.errors import EvaluationError
from headgate.expressions.kernels import Kernel, Value, arrays, arrow
from headgate.expressions.registry import function, typed
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments
from headgate.graph.expressions import Call, Literal
from headgate.graph.types import BIGINT, BOOLEAN, INT, NULL, is_integral, sql_name


def field_signature(types: Types, member: str) -> Signature:
    """A member of a struct; `member` is its name, in any case."""
    count_arguments("field", types, 1)
    (type_,) = types
    if not pa.types.is_struct(type_):
        raise WrongArguments(f"only a struct has members, and this is {sql_name(type_)}", 0)
    named = [type_.field(i) for i in range(type_.num_fields) if type_.field(i).name.lower() == member.lower()]
    if not named:
        names = ", ".join(type_.field(i).name for i in range(type_.num_fields))
        raise WrongArguments(f"the struct has no member {member}; it has {names}", 0)
    return Signature("field", types, named[0].type)


def _field_types(name: str, types: Types, literals: Literals) -> Signature:
    raise WrongArguments("field needs the member's name as its option")


@function("field", types=_field_types)
def _field(call: Call) -> Kernel:
    struct = call.args[0].type
    index = [struct.field(i).name.lower() for i in range(struct.num_fields)].index(call.option.lower())
    # struct_field gives null where the struct is null.
    return arrow("struct_field", pc.StructFieldOptions([index]))


def _struct_types(name: str, types: Types, literals: Literals) -> Signature:
    """Members named col1, col2 …; the SQL binder, which knows column names, calls named_struct instead."""
    count_arguments(name, types, 1, 1_000_000)
    return Signature(name, types, pa.struct([pa.field(f"col{i + 1}", t) for i, t in enumerate(types)]))


def _named_struct_types(name: str, types: Types, literals: Literals) -> Signature:
    """Arguments: name, value, name, value …; the names are string literals."""
    count_arguments(name, types, 2, 1_000_000)
    if len(types) % 2:
        raise WrongArguments("named_struct takes pairs of a name and a value")
    parts = []
    for i in range(0, len(types), 2):
        if not isinstance(literals[i], str):
            raise WrongArguments("the names of named_struct must be string literals", i)
        parts.append(pa.field(str(literals[i]), types[i + 1]))
    return Signature(name, types, pa.struct(parts))


@function("struct", types=_struct_types)
@function("named_struct", types=_named_struct_types)
def _struct(call: Call) -> Kernel:
    step = 2 if call.name == "named_struct" else 1
    fields = list(call.type)

    def build(*args: Value) -> Value:
        members = arrays(*args)[step - 1 :: step]
        return pa.StructArray.from_arrays(members, fields=fields)

    return build


def _array_types(name: str, types: Types, literals: Literals) -> Signature:
    common = common_type(types, "the elements of an array")
    return Signature(name, (common,) * len(types), pa.list_(common))


@function("array", types=_array_types)
def _array(call: Call) -> Kernel:
    if not call.args:
        return lambda: pa.scalar([], call.type)

    def build(*args: Value) -> Value:
        columns = arrays(*args)
        rows, width = len(columns[0]), len(columns)
        # Row by row: element i of every column in turn.
        order = (np.arange(rows)[:, None] + np.arange(width)[None, :] * rows).reshape(-1)
        values = pa.concat_arrays(columns).take(pa.array(order))
        return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * width, INT), values, call.type)

    return build


def _size_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if not (pa.types.is_list(types[0]) or pa.types.is_map(types[0])):
        raise WrongArguments(f"size takes an array or a map, not {sql_name(types[0])}", 0)
    return Signature(name, types, INT)


def _array_size_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if not pa.types.is_list(types[0]):
        raise WrongArguments(f"array_size takes an array, not {sql_name(types[0])}; write size(…)", 0)
    return Signature("size", types, INT)


typed("array_size", types=_array_size_types)


@function("size", types=_size_types, aliases={"cardinality": "size"})
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


def _element_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return not pa.types.is_map(args[0])


def _element_types(name: str, types: Types, literals: Literals) -> Signature:
    """`a[i]` counts from 0 and fails out of bounds; `m[k]` is NULL for a missing key."""
    count_arguments(name, types, 2)
    container, key = types
    if pa.types.is_map(container):
        wanted = common_type([container.key_type, key], "a map's key and what is looked up")
        native = wanted == container.key_type and is_atomic(wanted) and literals[1] is not None
        return Signature(name, (container, wanted), container.item_type, native)
    if not pa.types.is_list(container):
        raise WrongArguments(f"only arrays and maps have elements, and this is {sql_name(container)}", 0)
    if not is_integral(key) and key != NULL:
        raise WrongArguments(f"an array's index is an INT, not {sql_name(key)}", 1)
    return Signature(name, (container, INT), container.value_type)


@function("element", types=_element_types, fails=_element_fails)
def _element(call: Call) -> Kernel:
    container = call.args[0].type
    if pa.types.is_map(container):
        key = call.args[1]
        if not isinstance(key, Literal) or key.value is None:
            return lambda value, _: pa.nulls(len(arrays(value)[0]), call.type)
        run = arrow("map_lookup", pc.MapLookupOptions(pa.scalar(key.value, key.type), "first"))
        return lambda value, _: run(value)
    return lambda value, index: _element_of_list(arrays(value, index), 0)


def _element_at_types(name: str, types: Types, literals: Literals) -> Signature:
    """`element_at(a, i)` counts from 1, or from the end if negative."""
    count_arguments(name, types, 2)
    if pa.types.is_map(types[0]):
        found = _element_types("element", types, literals)
        return Signature("element", found.args, found.result, found.native)
    return Signature(name, (types[0], INT), _element_types("element", types, literals).result)


@function("element_at", types=_element_at_types, fails=_element_fails)
def _element_at(call: Call) -> Kernel:
    if pa.types.is_map(call.args[0].type):
        return _element(call)
    return lambda value, index: _element_of_list(arrays(value, index), 1)


def _array_contains_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if not pa.types.is_list(types[0]):
        raise WrongArguments(f"array_contains takes an array, not {sql_name(types[0])}", 0)
    common = common_type([types[0].value_type, types[1]], "an array's elements and what is looked for")
    return Signature(name, (pa.list_(common), common), BOOLEAN, native=is_atomic(common))


@function("array_contains", types=_array_contains_types)
def _array_contains(call: Call) -> Kernel:
    """NULL where the value is not found and an element is null."""
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


def _of_map_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if not pa.types.is_map(types[0]):
        raise WrongArguments(f"{name} takes a map, not {sql_name(types[0])}", 0)
    inside = types[0].key_type if name == "map_keys" else types[0].item_type
    return Signature(name, types, pa.list_(inside))


typed("map_keys", "map_values", types=_of_map_types)


def _array_position_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if not pa.types.is_list(types[0]):
        raise WrongArguments(f"array_position takes an array, not {sql_name(types[0])}", 0)
    return Signature(name, types, BIGINT)


typed("array_position", types=_array_position_types)


def _list(name: str, types: Types) -> pa.DataType:
    if not types or not pa.types.is_list(types[0]):
        given = sql_name(types[0]) if types else "nothing"
        raise WrongArguments(f"{name} takes an array, not {given}", 0)
    return types[0]


def _same_list_types(name: str, types: Types, literals: Literals) -> Signature:
    return Signature(name, types, _list(name, types))


typed(
    "sort_array",
    "array_sort",
    "array_distinct",
    "slice",
    "array_remove",
    "array_compact",
    "shuffle",
    "array_union",
    "array_intersect",
    "array_except",
    "array_append",
    "array_prepend",
    types=_same_list_types,
)


def _list_element_types(name: str, types: Types, literals: Literals) -> Signature:
    return Signature(name, types, _list(name, types).value_type)


typed("array_max", "array_min", types=_list_element_types)

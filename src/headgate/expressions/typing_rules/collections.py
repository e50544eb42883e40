"""Types of structs, arrays and maps: making them, and reaching into them."""

from __future__ import annotations

import pyarrow as pa

from headgate.expressions.coercion import common_type, is_atomic
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments, function
from headgate.graph.types import BIGINT, BOOLEAN, INT, NULL, is_integral, sql_name


def field_signature(types: Types, member: str) -> Signature:
    """A member of a struct; `member` is its name, as Spark finds it: without regard to case."""
    count_arguments("field", types, 1)
    (type_,) = types
    if not pa.types.is_struct(type_):
        raise WrongArguments(f"only a struct has members, and this is {sql_name(type_)}", 0)
    named = [type_.field(i) for i in range(type_.num_fields) if type_.field(i).name.lower() == member.lower()]
    if not named:
        names = ", ".join(type_.field(i).name for i in range(type_.num_fields))
        raise WrongArguments(f"the struct has no member {member}; it has {names}", 0)
    return Signature("field", types, named[0].type)


@function("field")
def _field(name: str, types: Types, literals: Literals) -> Signature:
    raise WrongArguments("field needs the member's name as its option")


def _element_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return not pa.types.is_map(args[0])


@function("element", fails=_element_fails)
def _element(name: str, types: Types, literals: Literals) -> Signature:
    """`a[i]`: from 0 for arrays, where an index outside is an error; by key for maps, where a missing key is NULL."""
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


@function("element_at", fails=_element_fails)
def _element_at(name: str, types: Types, literals: Literals) -> Signature:
    """`element_at(a, i)`: from 1, or from the end if negative."""
    count_arguments(name, types, 2)
    if pa.types.is_map(types[0]):
        found = _element("element", types, literals)
        return Signature("element", found.args, found.result, found.native)
    return Signature(name, (types[0], INT), _element("element", types, literals).result)


@function("size", "cardinality", "array_size")
def _size(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if not (pa.types.is_list(types[0]) or pa.types.is_map(types[0])):
        raise WrongArguments(f"size takes an array or a map, not {sql_name(types[0])}", 0)
    return Signature(name, types, INT)


@function("array")
def _array(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 1_000_000)
    common = common_type(types, "the elements of an array")
    return Signature(name, (common,) * len(types), pa.list_(common))


@function("struct")
def _struct(name: str, types: Types, literals: Literals) -> Signature:
    """Members named col1, col2 …; a binder that knows the columns' names calls named_struct instead."""
    count_arguments(name, types, 1, 1_000_000)
    return Signature(name, types, pa.struct([pa.field(f"col{i + 1}", t) for i, t in enumerate(types)]))


@function("named_struct")
def _named_struct(name: str, types: Types, literals: Literals) -> Signature:
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


@function("array_contains")
def _array_contains(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if not pa.types.is_list(types[0]):
        raise WrongArguments(f"array_contains takes an array, not {sql_name(types[0])}", 0)
    common = common_type([types[0].value_type, types[1]], "an array's elements and what is looked for")
    return Signature(name, (pa.list_(common), common), BOOLEAN, native=is_atomic(common))


def _of_map(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    if not pa.types.is_map(types[0]):
        raise WrongArguments(f"{name} takes a map, not {sql_name(types[0])}", 0)
    inside = types[0].key_type if name == "map_keys" else types[0].item_type
    return Signature(name, types, pa.list_(inside), native=False)


function("map_keys")(_of_map)
function("map_values")(_of_map)


@function("array_position")
def _array_position(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    if not pa.types.is_list(types[0]):
        raise WrongArguments(f"array_position takes an array, not {sql_name(types[0])}", 0)
    return Signature(name, types, BIGINT, native=False)

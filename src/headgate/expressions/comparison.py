"""Comparisons with Spark's order: NaN equals NaN and is greater than any other number, -0.0 equals 0.0."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.buffers import nulls, numbers, rebuilt
from headgate.expressions.coercion import common_type, implicit, is_nested
from headgate.expressions.kernels import Kernel, Value, array_of, arrays, arrow
from headgate.expressions.notation import INFIX
from headgate.expressions.registry import function
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments
from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.types import BOOLEAN, DOUBLE, FLOAT, is_numeric, sql_name

_ARROW = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_invert = pc.get_function("invert").call


def comparable(name: str, type_: pa.DataType) -> None:
    if pa.types.is_map(type_):
        raise WrongArguments(f"{name} cannot compare {sql_name(type_)}; compare its keys or items")


def _compare_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    common = common_type(types, f"the two sides of {INFIX[name]}")
    comparable(INFIX[name], common)
    return Signature(name, (common, common), BOOLEAN, native=native_comparison(name, common))


def native_comparison(name: str, type_: pa.DataType) -> bool:
    """Arrow does not compare lists; structs are compared member by member, for equality only."""
    if pa.types.is_struct(type_):
        return name in ("eq", "ne", "eq_null_safe") and all(native_comparison(name, f.type) for f in type_)
    return not is_nested(type_)


def _ordinary(expr: Expr) -> bool:
    """A number that is known not to be NaN."""
    return isinstance(expr, Literal) and expr.value is not None and not math.isnan(expr.value)


@function(*_ARROW, types=_compare_types)
def comparison(call: Call) -> Kernel:
    """Arrow's own comparison where it agrees with Spark's."""
    left, right = call.args
    if pa.types.is_struct(left.type):
        return _structs(call.name)
    if pa.types.is_floating(left.type):
        return _floats(call.name, _ordinary(left), _ordinary(right))
    if pa.types.is_null(left.type):
        return lambda a, b: pa.nulls(len(arrays(a, b)[0]), pa.bool_())
    return arrow(_ARROW[call.name])


def _floats(name: str, left_ordinary: bool, right_ordinary: bool) -> Kernel:
    """IEEE comparisons are false for NaN; Spark's treat it as the greatest number."""
    less, less_equal = arrow("less"), arrow("less_equal")
    if name in ("eq", "ne"):
        if left_ordinary or right_ordinary:
            return arrow(_ARROW[name])
        return _equal_floats if name == "eq" else lambda a, b: pc.invert(_equal_floats(a, b))
    if name == "gt":
        if right_ordinary:
            return lambda a, b: _invert((less_equal(a, b),))
        return lambda a, b: pc.invert(_at_most(a, b))
    if name == "ge":
        if right_ordinary:
            return lambda a, b: _invert((less(a, b),))
        return lambda a, b: _at_most(b, a)
    if right_ordinary:
        return less if name == "lt" else less_equal
    if name == "lt":
        return lambda a, b: pc.invert(_at_most(b, a))
    return _at_most


def _at_most(a: Value, b: Value) -> Value:
    return pc.or_(pc.less_equal(a, b), pc.and_(pc.is_nan(b), pc.is_valid(a)))


def _equal_floats(a: Value, b: Value) -> Value:
    return pc.or_(pc.equal(a, b), pc.and_(pc.is_nan(a), pc.is_nan(b)))


def equal(a: Value, b: Value, type_: pa.DataType) -> Value:
    """Spark's `=` on two values of one type."""
    if pa.types.is_floating(type_):
        return _equal_floats(a, b)
    if pa.types.is_struct(type_):
        return _structs("eq")(a, b)
    return pc.equal(a, b)


def _structs(name: str) -> Kernel:
    """Structs are equal when their members are; a null member equals a null member."""

    def compare(a: Value, b: Value) -> Value:
        first, second = arrays(a, b)
        same = _same_members(first, second)
        same = pc.if_else(pc.and_(pc.is_valid(first), pc.is_valid(second)), same, pa.scalar(None, pa.bool_()))
        return same if name == "eq" else pc.invert(same)

    return compare


def _same_members(a: pa.Array, b: pa.Array) -> pa.Array:
    same: Value = pa.scalar(True)
    for i in range(a.type.num_fields):
        same = pc.and_(same, null_safe_equal(pc.struct_field(a, [i]), pc.struct_field(b, [i])))
    return array_of(same, len(a))


def null_safe_equal(a: pa.Array, b: pa.Array) -> pa.Array:
    """`<=>`: true where both are null, never null."""
    if pa.types.is_null(a.type):
        return pa.repeat(True, len(a))
    same = _same_members(a, b) if pa.types.is_struct(a.type) else equal(a, b, a.type)
    both_valid = pc.and_(pc.is_valid(a), pc.is_valid(b))
    neither = pc.invert(pc.or_(pc.is_valid(a), pc.is_valid(b)))
    return pc.or_(pc.and_(pc.fill_null(same, False), both_valid), neither)


@function("eq_null_safe", types=_compare_types, aliases={"equal_null": "eq_null_safe"})
def _eq_null_safe(call: Call) -> Kernel:
    return lambda a, b: null_safe_equal(*arrays(a, b))


def _in_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2, 1_000_000)
    common = common_type(types, "the value and the list of IN")
    comparable(name, common)
    return Signature(name, (common,) * len(types), BOOLEAN, native=native_comparison("eq", common))


@function("in", types=_in_types)
def membership(call: Call) -> Kernel:
    """IN: null where the value is not in the list, and it or a member of the list is null."""
    candidates = call.args[1:]
    type_ = call.args[0].type
    if not all(isinstance(c, Literal) for c in candidates) or pa.types.is_nested(type_) or pa.types.is_null(type_):
        return _any_equal(type_)
    values = [c.value for c in candidates if isinstance(c, Literal)]
    known = [v for v in values if v is not None]
    has_null = len(known) < len(values)
    if pa.types.is_floating(type_):
        known = [0.0 if v == 0 else v for v in known]
    value_set = pa.array(known, type_)
    options = pc.SetLookupOptions(value_set, skip_nulls=True)
    is_in = arrow("is_in", options)
    unknown = pa.scalar(None, pa.bool_())

    def lookup(a: Value, *_: Value) -> Value:
        (a,) = arrays(a)
        found = is_in(_positive_zero(a))
        if has_null:
            return pc.if_else(found, pa.scalar(True), unknown)
        return pc.if_else(pc.is_valid(a), found, unknown) if a.null_count else found

    return lookup


def _positive_zero(a: pa.Array) -> pa.Array:
    """-0.0 as 0.0 and every NaN as the same NaN, since sets are looked up by bits."""
    if not pa.types.is_floating(a.type):
        return a
    plain = numbers(a) + 0.0
    return rebuilt(np.where(np.isnan(plain), np.nan, plain), a.type, nulls(a))


def _any_equal(type_: pa.DataType) -> Kernel:
    def compare(a: Value, *candidates: Value) -> Value:
        result: Value = pa.scalar(False)
        for candidate in candidates:
            first, second = arrays(a, candidate, *(c for c in candidates if not isinstance(c, pa.Scalar)))[:2]
            if pa.types.is_null(type_):
                found = pa.nulls(len(first), pa.bool_())
            else:
                found = equal(first, second, type_)
            result = pc.or_kleene(result, found)
        return result

    return compare


def _any_to_boolean_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    return Signature(name, types, BOOLEAN)


@function("is_null", types=_any_to_boolean_types, aliases={"isnull": "is_null"})
def _is_null(call: Call) -> Kernel:
    return arrow("is_null", pc.NullOptions(nan_is_null=False))


@function("is_not_null", types=_any_to_boolean_types, aliases={"isnotnull": "is_not_null"})
def _is_not_null(call: Call) -> Kernel:
    return arrow("is_valid")


def _isnan_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    wanted = types[0] if types[0] in (FLOAT, DOUBLE) else implicit(name, 0, types[0], DOUBLE)
    return Signature(name, (wanted,), BOOLEAN)


@function("isnan", types=_isnan_types)
def _isnan(call: Call) -> Kernel:
    return lambda a: pc.fill_null(pc.is_nan(a), False)


def _nanvl_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    common = FLOAT if types == (FLOAT, FLOAT) else DOUBLE
    return Signature(name, tuple(implicit(name, i, t, common) for i, t in enumerate(types)), common)


@function("nanvl", types=_nanvl_types)
def _nanvl(call: Call) -> Kernel:
    return lambda a, b: pc.if_else(pc.fill_null(pc.is_nan(a), False), b, a)


def _extreme_types(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2, 1_000_000)
    common = common_type(types, f"the arguments of {name}", strings=False)
    comparable(name, common)
    return Signature(name, (common,) * len(types), common, native=not is_nested(common) and common != BOOLEAN)


@function("greatest", "least", types=_extreme_types)
def _extreme(call: Call) -> Kernel:
    """Nulls are skipped; NaN is the greatest."""
    greatest = call.name == "greatest"
    at_most = _at_most if pa.types.is_floating(call.type) else pc.less_equal
    if is_numeric(call.type) and not pa.types.is_floating(call.type):
        name = "max_element_wise" if greatest else "min_element_wise"
        return arrow(name, pc.ElementWiseAggregateOptions(skip_nulls=True))

    def pick(*args: Value) -> Value:
        columns = arrays(*args)
        result = columns[0]
        for column in columns[1:]:
            # Keeps the first of equals, as Spark does, so -0.0 and 0.0 are not exchanged.
            better = at_most(column, result) if greatest else at_most(result, column)
            keep = pc.if_else(pc.is_null(column), True, pc.if_else(pc.is_null(result), False, better))
            result = pc.if_else(keep, result, column)
        return result

    return pick

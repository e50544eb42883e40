"""Types of comparisons, three-valued logic, conditions and casts."""

from __future__ import annotations

import pyarrow as pa

from headgate.expressions.coercion import can_cast, common_type, implicit, is_nested
from headgate.expressions.notation import INFIX
from headgate.expressions.signature import Literals, Signature, Types, WrongArguments, count_arguments, function
from headgate.expressions.typing_rules.casts import cast_fails, native_cast, zoned_cast
from headgate.graph.types import BOOLEAN, DOUBLE, FLOAT, NULL, STRING, sql_name


def _comparable(name: str, type_: pa.DataType) -> None:
    if pa.types.is_map(type_):
        raise WrongArguments(f"{name} cannot compare {sql_name(type_)}; compare its keys or items")


def _compare(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    common = common_type(types, f"the two sides of {INFIX[name]}")
    _comparable(INFIX[name], common)
    return Signature(name, (common, common), BOOLEAN, native=_native_comparison(name, common))


def _native_comparison(name: str, type_: pa.DataType) -> bool:
    """Arrow compares no lists; of structs we compare the members, for equality."""
    if pa.types.is_struct(type_):
        return name in ("eq", "ne", "eq_null_safe") and all(_native_comparison(name, f.type) for f in type_)
    return not is_nested(type_)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    function(_name)(_compare)
function("eq_null_safe", "equal_null")(_compare)


@function("in")
def _in(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2, 1_000_000)
    common = common_type(types, "the value and the list of IN")
    _comparable(name, common)
    return Signature(name, (common,) * len(types), BOOLEAN, native=_native_comparison("eq", common))


def _connective(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1 if name == "not" else 2, 1 if name == "not" else 1_000_000)
    args = tuple(_condition(name, i, t) for i, t in enumerate(types))
    return Signature(name, args, BOOLEAN)


def _condition(name: str, position: int, type_: pa.DataType) -> pa.DataType:
    if type_ not in (BOOLEAN, NULL, STRING):
        raise WrongArguments(f"{name.upper()} takes conditions, not {sql_name(type_)}", position)
    return BOOLEAN


for _name in ("and", "or", "not"):
    function(_name, *(("!",) if _name == "not" else ()))(_connective)


def _any_to_boolean(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    return Signature(name, types, BOOLEAN)


function("is_null", "isnull")(_any_to_boolean)
function("is_not_null", "isnotnull")(_any_to_boolean)


def _truth(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    return Signature(name, (_condition(name, 0, types[0]),), BOOLEAN)


for _name in ("is_true", "is_false", "is_not_true", "is_not_false"):
    function(_name)(_truth)


@function("isnan")
def _isnan(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    wanted = types[0] if types[0] in (FLOAT, DOUBLE) else implicit(name, 0, types[0], DOUBLE)
    return Signature(name, (wanted,), BOOLEAN)


@function("nanvl")
def _nanvl(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2)
    common = FLOAT if types == (FLOAT, FLOAT) else DOUBLE
    return Signature(name, tuple(implicit(name, i, t, common) for i, t in enumerate(types)), common)


@function("case")
def _case(name: str, types: Types, literals: Literals) -> Signature:
    """Arguments: when, then, when, then, …, else (a missing ELSE is a NULL literal)."""
    count_arguments("CASE", types, 3, 1_000_000)
    if len(types) % 2 == 0:
        raise WrongArguments("CASE takes pairs of WHEN and THEN and one ELSE")
    positions = [i for i in range(len(types) - 1) if i % 2] + [len(types) - 1]
    common = common_type([types[i] for i in positions], "the results of CASE")
    args = [common if i in positions else _condition("WHEN", i, t) for i, t in enumerate(types)]
    return Signature(name, tuple(args), common)


@function("if", "iff")
def _if(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 3)
    common = common_type(types[1:], "the results of IF")
    return Signature("case", (_condition("IF", 0, types[0]), common, common), common)


@function("coalesce", "ifnull", "nvl")
def _coalesce(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 1_000_000)
    common = common_type(types, f"the arguments of {name}")
    return Signature(name, (common,) * len(types), common)


def _nullif_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return cast_fails(args[:1], args[1], (None,))


@function("nullif", fails=_nullif_fails)
def _nullif(name: str, types: Types, literals: Literals) -> Signature:
    """The result keeps the first argument's type; its kernel casts it for the comparison."""
    count_arguments(name, types, 2)
    common = common_type(types, "the arguments of nullif")
    _comparable(name, common)
    native = native_cast(types[0], common) and _native_comparison("eq", common)
    return Signature(name, (types[0], common), types[0], native, zoned=zoned_cast(types[0], common))


@function("nvl2")
def _nvl2(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 3)
    common = common_type(types[1:], "the results of nvl2")
    return Signature(name, (types[0], common, common), common)


def _extreme(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 2, 1_000_000)
    common = common_type(types, f"the arguments of {name}", strings=False)
    _comparable(name, common)
    return Signature(name, (common,) * len(types), common, native=not is_nested(common) and common != BOOLEAN)


function("greatest")(_extreme)
function("least")(_extreme)


def cast_signature(given: pa.DataType, wanted: pa.DataType, name: str = "cast") -> Signature:
    """How a cast to a type is made; WrongArguments where Spark refuses it."""
    if not can_cast(given, wanted):
        raise WrongArguments(f"cannot cast {sql_name(given)} to {sql_name(wanted)}", 0)
    return Signature(
        name,
        (given,),
        wanted,
        native=native_cast(given, wanted),
        fallible=name == "cast" and cast_fails((given,), wanted, (None,)),
        zoned=zoned_cast(given, wanted),
    )

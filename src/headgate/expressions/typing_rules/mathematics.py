"""Types of mathematical functions."""

from __future__ import annotations

import pyarrow as pa

from headgate.expressions.coercion import bounded, implicit, is_decimal, is_floating
from headgate.expressions.signature import (
    Literals,
    Rule,
    Signature,
    Types,
    WrongArguments,
    count_arguments,
    function,
)
from headgate.graph.types import BIGINT, DOUBLE, INT, NULL, STRING, is_integral, is_numeric, sql_name


def _doubles(least: int, most: int | None = None) -> Rule:
    def rule(name: str, types: Types, literals: Literals) -> Signature:
        count_arguments(name, types, least, most)
        return Signature(name, tuple(implicit(name, i, t, DOUBLE) for i, t in enumerate(types)), DOUBLE)

    return rule


ONE_DOUBLE = {
    "sqrt": (),
    "cbrt": (),
    "exp": (),
    "expm1": (),
    "ln": (),
    "log2": (),
    "log10": (),
    "log1p": (),
    "sin": (),
    "cos": (),
    "tan": (),
    "cot": (),
    "sec": (),
    "csc": (),
    "asin": (),
    "acos": (),
    "atan": (),
    "sinh": (),
    "cosh": (),
    "tanh": (),
    "asinh": (),
    "acosh": (),
    "atanh": (),
    "degrees": (),
    "radians": (),
    "rint": (),
    "sign": ("signum",),
}
for _name, _aliases in ONE_DOUBLE.items():
    function(_name, *_aliases)(_doubles(1))
for _name, _alias in {"pow": ("power",), "atan2": (), "hypot": ()}.items():
    function(_name, *_alias)(_doubles(2))
for _name in ("pi", "e"):
    function(_name)(_doubles(0))


@function("log")
def _log(name: str, types: Types, literals: Literals) -> Signature:
    """log(x) is the natural logarithm, log(base, x) the other."""
    found = _doubles(1, 2)(name, types, literals)
    return Signature("ln", found.args, DOUBLE) if len(types) == 1 else found


@function("factorial")
def _factorial(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1)
    return Signature(name, (implicit(name, 0, types[0], INT),), BIGINT)


def _whole(name: str, types: Types, literals: Literals) -> Signature:
    """floor and ceil: BIGINT, or a decimal without places. With a scale they are Catalyst's."""
    count_arguments(name, types, 1, 2)
    (type_,) = types[:1]
    if len(types) == 2:
        places = literals[1]
        if not isinstance(places, int):
            raise WrongArguments(f"the scale of {name} must be a literal", 1)
        if is_integral(type_):
            type_ = {pa.int8(): pa.decimal128(3, 0), pa.int16(): pa.decimal128(5, 0), INT: pa.decimal128(10, 0)}.get(
                type_, pa.decimal128(20, 0)
            )
        elif not is_decimal(type_):
            type_ = pa.decimal128(30, 15)
        whole = type_.precision - type_.scale + 1
        scale = min(type_.scale, max(places, 0))
        precision = max(whole, -places + 1) if places < 0 else whole + scale
        return Signature(name, types, bounded(precision, scale), native=False)
    if is_decimal(type_):
        return Signature(name, types, bounded(type_.precision - type_.scale + 1, 0))
    if is_integral(type_):
        return Signature(name, (BIGINT,), BIGINT)
    return Signature(name, (implicit(name, 0, type_, DOUBLE),), BIGINT)


def _whole_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    return is_floating(args[0])


function("floor", fails=_whole_fails)(_whole)
function("ceil", "ceiling", fails=_whole_fails)(_whole)


def _round_fails(args: Types, result: pa.DataType, literals: Literals) -> bool:
    places = literals[1] if len(literals) > 1 else 0
    if is_integral(result):
        return not isinstance(places, int) or places < 0
    return bool(is_decimal(result) and result.precision == 38)


def _round(name: str, types: Types, literals: Literals) -> Signature:
    count_arguments(name, types, 1, 2)
    type_ = DOUBLE if types[0] in (STRING, NULL) else types[0]
    if not is_numeric(type_):
        raise WrongArguments(f"{name} takes a number, not {sql_name(types[0])}", 0)
    places = 0
    if len(types) == 2:
        if not isinstance(literals[1], int):
            raise WrongArguments(f"the scale of {name} must be a literal INT", 1)
        places = literals[1]
    args = (type_, *((INT,) if len(types) == 2 else ()))
    result = type_
    if is_decimal(type_):
        whole = type_.precision - type_.scale + 1
        if places < 0:
            result = bounded(max(whole, -places + 1), 0)
        else:
            scale = min(type_.scale, places)
            result = bounded(whole + scale, scale)
    elif not is_floating(type_) and not is_integral(type_):
        raise WrongArguments(f"{name} takes a number, not {sql_name(types[0])}", 0)
    return Signature(name, args, result, native=abs(places) <= 30)


function("round", fails=_round_fails)(_round)
function("bround", fails=_round_fails)(_round)


def _trying(name: str, types: Types, literals: Literals) -> Signature:
    """try_add and its like: as without try, but NULL instead of an error."""
    from headgate.expressions.signature import CATALOGUE

    plain = name.removeprefix("try_")
    found = CATALOGUE[plain].rule(plain, types, literals)
    return Signature(name, found.args, found.result, found.native, zoned=found.zoned)


for _name in ("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod", "try_element_at"):
    function(_name)(_trying)

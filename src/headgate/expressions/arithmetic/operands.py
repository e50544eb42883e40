"""Coercion of the operands of arithmetic, and the errors for wrong ones."""

from __future__ import annotations

import pyarrow as pa

from headgate.expressions.coercion import decimal_of, is_decimal, is_floating
from headgate.expressions.notation import INFIX
from headgate.expressions.signature import Literals, Types, WrongArguments, count_arguments
from headgate.graph.types import (
    BIGINT,
    DOUBLE,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_integral,
    is_numeric,
    sql_name,
)


def wrong_operands(name: str, types: Types, hint: str = "cast one of them") -> WrongArguments:
    names = " and ".join(sql_name(t) for t in types)
    if any(t in (TIMESTAMP, TIMESTAMP_NTZ) for t in types) and name in ("add", "subtract"):
        hint = "a time is moved by an interval, as in ts + INTERVAL 5 SECONDS"
    return WrongArguments(f"{INFIX.get(name, name)} does not take {names}; {hint}")


def numeric_operands(name: str, types: Types) -> Types:
    """Numeric types for both sides: a string becomes BIGINT or DOUBLE by the other side, NULL takes its type."""
    count_arguments(name, types, 2)
    first, second = types
    if first == NULL and second == NULL:
        return (DOUBLE, DOUBLE)
    if first in (NULL, STRING):
        first = second if first == NULL else _from_string(name, types, second)
    elif second in (NULL, STRING):
        second = first if second == NULL else _from_string(name, types, first)
    if not (is_numeric(first) and is_numeric(second)):
        raise wrong_operands(name, types)
    return (first, second)


def _from_string(name: str, types: Types, other: pa.DataType) -> pa.DataType:
    if is_integral(other):
        return BIGINT
    if is_numeric(other):
        return DOUBLE
    raise wrong_operands(name, types)


def decimal_operands(types: Types, literals: Literals) -> Types | None:
    """Both sides as decimals if that is how they are computed, else None."""
    if any(is_floating(t) for t in types) or not any(is_decimal(t) for t in types):
        return None
    return tuple(decimal_of(t, v) for t, v in zip(types, literals, strict=True))

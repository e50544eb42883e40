"""Computes what is constant while a query is registered, so that equal constants written differently are equal.

Only what is certain is folded: whatever might raise, overflow or depend on a kernel's exact behaviour is left as
it is and computed with the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa

from headgate.expressions.functions import fallible
from headgate.graph import types as t
from headgate.graph.expressions import Call, Expr, Literal
from headgate.sql.literals import cast_text

_RANGE = {t.TINYINT: 2**7, t.SMALLINT: 2**15, t.INT: 2**31, t.BIGINT: 2**63}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
}
_COMPARISON: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
TRUE = Literal(t.BOOLEAN, True)
FALSE = Literal(t.BOOLEAN, False)


def fold(expr: Expr, zone: str) -> Expr:
    """The constant that a call is, or the call itself. Its arguments are folded already."""
    if not isinstance(expr, Call):
        return expr
    if expr.name in ("and", "or"):
        return _connective(expr)
    if not expr.args or not all(isinstance(a, Literal) for a in expr.args):
        return expr
    values = [a.value for a in expr.args if isinstance(a, Literal)]
    if expr.name in ("cast", "try_cast"):
        return _cast(expr, values[0], zone) or expr
    if expr.name == "not":
        return Literal(t.BOOLEAN, None if values[0] is None else not values[0])
    if expr.name == "negative":
        return _number(expr, None if values[0] is None else -values[0])
    if expr.name in _ARITHMETIC:
        return _number(expr, None if None in values else _computed(expr, values))
    if expr.name in _COMPARISON and not any(isinstance(v, float) for v in values):
        return Literal(t.BOOLEAN, None if None in values else _COMPARISON[expr.name](*values))
    return expr


def _connective(expr: Call) -> Expr:
    """AND and OR with constants; a false term decides an AND only if no term before it may raise."""
    stop = expr.name == "or"
    kept: list[Expr] = []
    for arg in expr.args:
        if isinstance(arg, Literal) and arg.value is (not stop):
            continue
        if isinstance(arg, Literal) and arg.value is stop and not any(fallible(k) for k in kept):
            return arg
        kept.append(arg)
    if not kept:
        return FALSE if stop else TRUE
    return kept[0] if len(kept) == 1 else Call(t.BOOLEAN, expr.name, tuple(kept))


def _computed(expr: Call, values: list[Any]) -> Any:
    """The value of an arithmetic call, or NotImplemented where only a kernel knows."""
    times = tuple(isinstance(v, datetime) for v in values)
    if any(isinstance(v, float) for v in values) or (any(times) and expr.type not in (t.TIMESTAMP, t.TIMESTAMP_NTZ)):
        return NotImplemented
    if any(times) and expr.option:
        return NotImplemented
    try:
        with localcontext() as context:
            context.prec = 80
            return _ARITHMETIC[expr.name](*values)
    except (TypeError, OverflowError):
        return NotImplemented


def _number(expr: Call, value: Any) -> Expr:
    """A literal of the call's type, if the value fits it exactly."""
    if value is None:
        return Literal(expr.type, None)
    if expr.type in _RANGE:
        size = _RANGE[expr.type]
        return Literal(expr.type, value) if isinstance(value, int) and -size <= value < size else expr
    if expr.type == t.DOUBLE and isinstance(value, float) and expr.name == "negative":
        return Literal(expr.type, value)
    if pa.types.is_decimal(expr.type) and isinstance(value, Decimal):
        return _rescaled(expr, value) or expr
    if expr.type == t.INTERVAL and isinstance(value, timedelta):
        return Literal(expr.type, value)
    if expr.type in (t.TIMESTAMP, t.TIMESTAMP_NTZ) and isinstance(value, datetime):
        return Literal(expr.type, value)
    return expr


def _rescaled(expr: Expr, value: Decimal) -> Literal | None:
    type_ = expr.type
    try:
        with localcontext() as context:
            context.prec = 80
            scaled = value.quantize(Decimal(1).scaleb(-type_.scale), rounding=ROUND_HALF_UP)
    except InvalidOperation:
        return None
    if len(scaled.as_tuple().digits) > type_.precision and scaled != 0:
        return None
    return Literal(type_, scaled)


def _cast(expr: Call, value: Any, zone: str) -> Expr | None:
    source, target = expr.args[0].type, expr.type
    if value is None:
        return Literal(target, None)
    if source == target:
        return expr.args[0]
    if isinstance(value, bool):
        return None
    if isinstance(value, int) and t.is_integral(source):
        if target in _RANGE:
            return Literal(target, value) if -_RANGE[target] <= value < _RANGE[target] else None
        if target == t.DOUBLE or (target == t.FLOAT and abs(value) <= 2**24):
            return Literal(target, float(value))
        if pa.types.is_decimal(target):
            return _rescaled(expr, Decimal(value))
        if target == t.STRING:
            return Literal(target, str(value))
    if isinstance(value, Decimal) and pa.types.is_decimal(source):
        if pa.types.is_decimal(target):
            return _rescaled(expr, value)
        if target == t.DOUBLE:
            return Literal(target, float(value))
    if isinstance(value, str) and source == t.STRING:
        return cast_text(value, target, zone)
    if source == t.FLOAT and target == t.DOUBLE:
        return Literal(target, value)
    return None

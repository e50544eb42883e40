"""Computes the constant parts of expressions by their kernels, so that equal constants written differently are equal.

A part that fails is left unchanged: at run time it must fail only on the rows that reach it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from headgate.expressions import functions  # noqa: F401 - it enters all functions
from headgate.expressions.kernels import Value, array_of
from headgate.expressions.registry import FUNCTIONS, fallible, kernel_of
from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.types import BOOLEAN, DATE, INTERVAL, TIMESTAMP, TIMESTAMP_NTZ

TRUE = Literal(BOOLEAN, True)
FALSE = Literal(BOOLEAN, False)


class _OneRow:
    """A frame of one row without columns."""

    rows = pa.record_batch({"": pa.nulls(1)})

    def __init__(self) -> None:
        self.computed: dict[Expr, Value] = {}


def fold(expr: Expr) -> Expr:
    """The expression with its constant parts computed, except those that fail."""
    if not isinstance(expr, Call):
        return expr
    args = tuple(fold(a) for a in expr.args)
    if any(new is not old for new, old in zip(args, expr.args, strict=True)):
        expr = replace(expr, arguments=args)
    return fold_call(expr)


def fold_call(call: Call) -> Expr:
    """The value of a constant call as a literal, or the call itself; its arguments are already folded.

    >>> from headgate.graph.types import INT
    >>> fold_call(Call(INT, "add", (Literal(INT, 1), Literal(INT, 2)))).text
    '3:int32'
    """
    if call.name in ("cast", "try_cast") and call.args[0].type == call.type:
        return call.args[0]
    folded = _connective(call) if call.name in ("and", "or") else call
    # Constant arrays, maps and structs stay calls: Spark SQL has no other spelling for them.
    if not isinstance(folded, Call) or pa.types.is_nested(folded.type) or not _constant(folded) or _large(folded):
        return folded
    try:
        scalar = _value(folded)[0]
        return Literal(folded.type, _python(scalar))
    except (ValueError, ArithmeticError, pa.ArrowException):
        return folded


LARGEST = 1_000_000
"""Longest folded text (characters). A longer one is computed in the worker, where a failure stops only its query."""

_GROWING = frozenset(("repeat", "lpad", "rpad", "space"))


def _large(call: Call) -> bool:
    """Whether the value of a call with constant arguments may be too large to be folded."""
    if call.name not in _GROWING:
        return False
    values = [arg.value for arg in call.args if isinstance(arg, Literal)]
    longest = max((len(each) for each in values if isinstance(each, (str, bytes))), default=1)
    return any(isinstance(each, int) and each * max(longest, 1) > LARGEST for each in values)


def _connective(call: Call) -> Expr:
    """AND and OR with constants; a false term decides an AND only if no term before it may raise."""
    stop = call.name == "or"
    kept: list[Expr] = []
    for arg in call.args:
        if isinstance(arg, Literal) and arg.value is (not stop):
            continue
        if isinstance(arg, Literal) and arg.value is stop and not any(fallible(k) for k in kept):
            return arg
        kept.append(arg)
    if not kept:
        return FALSE if stop else TRUE
    return kept[0] if len(kept) == 1 else Call(BOOLEAN, call.name, tuple(kept))


def _constant(call: Call) -> bool:
    """Whether a call holds only literals, and arrays, maps and structs of them. Python functions may not be pure."""
    return call.name != "python" and all(
        isinstance(arg, Literal) or (isinstance(arg, Call) and pa.types.is_nested(arg.type) and _constant(arg))
        for arg in call.args
    )


def _value(expr: Expr) -> pa.Array:
    """The value of a constant expression, on one row."""
    if isinstance(expr, Literal):
        return pa.repeat(expr.scalar, 1)
    assert isinstance(expr, Call)
    function = FUNCTIONS.get(expr.name)
    if function is not None and function.branching is not None:
        runs = [_run(arg) for arg in expr.args]
        return array_of(function.branching(expr, runs)(_OneRow()), 1)
    return array_of(kernel_of(expr)(*[_value(arg) for arg in expr.args]), 1)


def _run(expr: Expr) -> Callable[[Any], Value]:
    return lambda frame: _value(expr)


def _python(scalar: pa.Scalar) -> Any:
    """The value of a scalar as a Literal holds it; OverflowError for dates and times outside of Python's years."""
    if not scalar.is_valid:
        return None
    if scalar.type == DATE:
        return date(1970, 1, 1) + timedelta(days=scalar.value)
    if scalar.type in (TIMESTAMP, TIMESTAMP_NTZ):
        start = datetime(1970, 1, 1, tzinfo=UTC if scalar.type == TIMESTAMP else None)
        return start + timedelta(microseconds=scalar.value)
    if scalar.type == INTERVAL:
        return timedelta(microseconds=scalar.value)
    return scalar.as_py()

"""Compiles an expression into a closure over a batch: kernels chosen, constants computed, branches guarded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headgate.expressions import functions  # noqa: F401 - it enters all functions
from headgate.expressions.errors import EvaluationError
from headgate.expressions.kernels import Value
from headgate.expressions.registry import FUNCTIONS, Branching, fallible, kernel_of
from headgate.graph.expressions import Call, Column, Expr, Foreign, Literal


class Rows(Protocol):
    """What columns are read from: a record batch, or some rows of one."""

    @property
    def num_rows(self) -> int: ...

    def column(self, which: int | str) -> pa.Array: ...


class Frame(Protocol):
    """What an expression is computed on: rows, and the memo of what was computed on all of them."""

    @property
    def rows(self) -> Any: ...

    @property
    def computed(self) -> dict[Expr, Value]: ...


Run = Callable[[Frame], Value]


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression ready to run; `expr` has its constants computed, `fallible` says whether it may raise."""

    expr: Expr
    run: Run
    fallible: bool


def compiled(expr: Expr) -> Compiled:
    """Compiles an expression; ValueError for a function without a kernel."""
    folded = _folded(expr)
    return Compiled(folded, _program(folded), fallible(folded))


def _program(expr: Expr) -> Run:
    match expr:
        case Column(index=index):
            return lambda frame: frame.rows.column(index)
        case Foreign(key=key):
            return lambda frame: frame.rows.column(key)
        case Literal():
            scalar = expr.scalar
            return lambda frame: scalar
        case Call():
            return _memoized(expr, _call(expr))
    raise TypeError(f"not an expression: {expr!r}")


def _call(expr: Call) -> Run:
    args = [_program(a) for a in expr.args]
    branching = _branching(expr)
    if branching is not None:
        return branching(expr, args)
    kernel = kernel_of(expr)
    if expr.args and all(isinstance(a, Literal) for a in expr.args):
        # Constant, and not folded: it fails. It may do so only where there are rows.
        return lambda frame: _each_row(kernel, args, frame)
    if len(args) == 1:
        (only,) = args
        return lambda frame: kernel(only(frame))
    if len(args) == 2:
        first, second = args
        return lambda frame: kernel(first(frame), second(frame))
    return lambda frame: kernel(*[a(frame) for a in args])


def _branching(call: Call) -> Branching | None:
    found = FUNCTIONS.get(call.name)
    return found.branching if found is not None else None


def _each_row(kernel: Callable[..., Value], args: list[Run], frame: Frame) -> Value:
    rows = frame.rows.num_rows
    return kernel(*[pa.repeat(a(frame), rows) for a in args])


def _memoized(expr: Expr, run: Run) -> Run:
    def lookup(frame: Frame) -> Value:
        memo = frame.computed
        value = memo.get(expr)
        if value is None:
            value = memo[expr] = run(frame)
        return value

    return lookup


class _OneRow:
    """A frame of one row without columns, for constants."""

    rows = pa.record_batch({"": pa.nulls(1)})

    def __init__(self) -> None:
        self.computed: dict[Expr, Value] = {}


def _folded(expr: Expr) -> Expr:
    """Computes every call of constants; one that fails stays, to fail on the rows that reach it."""
    if not isinstance(expr, Call):
        return expr
    args = tuple(_folded(a) for a in expr.args)
    if any(new is not old for new, old in zip(args, expr.args, strict=True)):
        expr = Call(expr.type, expr.name, args, expr.option)
    if expr.name == "python" or not all(isinstance(a, Literal) for a in args):
        return expr
    try:
        value = _constant(expr)
    except EvaluationError:
        return expr
    return Literal(
        expr.type, value.value if isinstance(value.type, pa.lib.TimestampType | pa.lib.DurationType) else value.as_py()
    )


def _constant(expr: Call) -> pa.Scalar:
    frame = _OneRow()
    args: list[Run] = [_one(a) for a in expr.args]
    branching = _branching(expr)
    value = branching(expr, args)(frame) if branching is not None else kernel_of(expr)(*[a(frame) for a in args])
    return value if isinstance(value, pa.Scalar) else value[0]


def _one(expr: Expr) -> Run:
    array = pa.repeat(expr.scalar, 1) if isinstance(expr, Literal) else pa.nulls(1)
    return lambda frame: array

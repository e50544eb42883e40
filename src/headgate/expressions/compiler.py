"""Compiles an expression into a closure over a batch: kernels chosen, constants computed, branches guarded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headgate.expressions.constants import fold
from headgate.expressions.kernels import Value
from headgate.expressions.registry import FUNCTIONS, fallible, kernel_of
from headgate.graph.expressions import Call, Column, Expr, Foreign, Literal


class Rows(Protocol):
    """A source of columns: a record batch, or some rows of one."""

    @property
    def num_rows(self) -> int: ...

    def column(self, which: int | str) -> pa.Array: ...


class Frame(Protocol):
    """The input of a compiled expression: rows, and the values already computed on all of them."""

    @property
    def rows(self) -> Rows: ...

    @property
    def computed(self) -> dict[Expr, Value]: ...


Run = Callable[[Frame], Value]


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression ready to run; `fallible`: it may raise on some row (constants are already computed)."""

    run: Run
    fallible: bool


def compiled(expr: Expr) -> Compiled:
    """Compiles an expression; ValueError for a function without a kernel."""
    folded = fold(expr)
    return Compiled(_program(folded), fallible(folded))


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
    function = FUNCTIONS.get(expr.name)
    if function is not None and function.branching is not None:
        return function.branching(expr, args)
    kernel = kernel_of(expr)
    if expr.args and all(isinstance(a, Literal) for a in expr.args):
        # A constant call that was not folded may raise; it must do so only if there are rows.
        return lambda frame: _each_row(kernel, args, frame)
    if not args:
        return lambda frame: pa.repeat(kernel(), frame.rows.num_rows)
    if len(args) == 1:
        (only,) = args
        return lambda frame: kernel(only(frame))
    if len(args) == 2:
        first, second = args
        return lambda frame: kernel(first(frame), second(frame))
    return lambda frame: kernel(*[a(frame) for a in args])


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

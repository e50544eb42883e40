"""The event times of a bound tree, and expressions that are linear in one: the basis of windows and bounded joins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from headgate.graph import types as t
from headgate.graph.event_times import EventTimes, time_of, window_time
from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.operators import Operator

DAY = 86_400_000_000


def times(node: Operator) -> EventTimes:
    """The event times among an operator's columns, by position."""
    return node.times([times(each) for each in node.inputs])


@dataclass(frozen=True)
class Linear:
    """An event time plus a constant number of microseconds. `exact` is false where a day may not have 24 hours."""

    time: Expr
    shift: int
    exact: bool = True


def linear(expr: Expr, known: EventTimes) -> Linear | None:
    """An expression as an event time plus a constant, or None if it is not of that kind."""
    time = time_of(expr, known)
    own = any(isinstance(e, Call) and e.name == "window" for e in expr.walk())
    if own:  # a row's own time is what makes it late, not the window that it is in
        return None
    if time is not None and not time.window:
        if isinstance(expr, Call) and expr.name == "field":
            return Linear(window_time(expr.args[0]), 1)
        return Linear(expr, 0)
    if not isinstance(expr, Call):
        return None
    if expr.name == "field" and expr.option.lower() == "start":
        window = time_of(expr.args[0], known)
        if window is not None and window.window and window.length is not None:
            return Linear(window_time(expr.args[0]), 1 - window.length)
    if expr.name in ("add", "subtract") and len(expr.args) == 2:
        first, second = expr.args
        if expr.name == "add" and isinstance(first, Literal):
            first, second = second, first
        inner = linear(first, known)
        if inner is not None and isinstance(second, Literal) and isinstance(second.value, timedelta):
            size = second.value // timedelta(microseconds=1)
            zoned = expr.option not in ("", "UTC") and abs(size) >= DAY
            shift = size if expr.name == "add" else -size
            return Linear(inner.time, inner.shift + shift, inner.exact and not zoned)
    return None


def is_window(type_: pa.DataType) -> bool:
    """Whether a type is that of a time window."""
    return bool(type_ in (t.WINDOW, t.WINDOW_NTZ))

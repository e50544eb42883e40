"""Which columns are event times, and what conditions between them say: the ground for windows and bounded joins.

A column is an event time if no row with an earlier one can come behind the watermark: a stream's watermarked
column, the window of an aggregate, and what follows from them through projections, joins and unions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from headgate.graph import types as t
from headgate.graph.expressions import Call, Column, Expr, Literal
from headgate.graph.operators import (
    Aggregate,
    Distinct,
    Expand,
    Join,
    Lookup,
    Operator,
    Project,
    Select,
    Source,
    Split,
    Top,
    Union,
)
from headgate.sql.relation import Named, Pair, Ranked

DAY = 86_400_000_000


@dataclass(frozen=True)
class EventTime:
    """An instant, or a window with its length (None: it varies, as a session's does)."""

    window: bool = False
    length: int | None = None


Times = dict[int, EventTime]


def times(node: Operator) -> Times:
    """The event times among an operator's columns, by position."""
    match node:
        case Source():
            return {} if node.time is None else {node.time: EventTime()}
        case Select() | Distinct() | Top() | Ranked() | Split():
            return times(node.inputs[0])
        case Named():
            return times(node.plan)
        case Project():
            return _known((i, time_of(e, times(node.input))) for i, e in enumerate(node.exprs))
        case Lookup():
            return times(node.input)
        case Expand():
            found = times(node.input)
            return {**found, len(node.input.schema): EventTime(True, node.window.length)}
        case Aggregate():
            return _aggregate_times(node)
        case Pair() | Join():
            found = times(node.left)
            if node.how not in ("semi", "anti"):
                width = len(node.left.schema)
                found = found | {i + width: time for i, time in times(node.right).items()}
            return found
        case Union():
            parts = [times(part) for part in node.parts]
            return {i: time for i, time in parts[0].items() if all(p.get(i) == time for p in parts)}
    return {}


def _known(found: object) -> Times:
    return {i: time for i, time in found if time is not None}  # type: ignore[attr-defined]


def _aggregate_times(node: Aggregate) -> Times:
    if node.window is None or node.window.kind == "rows":
        return {}
    length = node.window.length if node.window.kind == "time" else None
    found: Times = {0: EventTime(True, length)}
    below = times(node.input)
    for i, key in enumerate(node.keys):
        time = time_of(key, below)
        if time is not None:
            found[i + 1] = time
    return found


def time_of(expr: Expr, known: Times) -> EventTime | None:
    """The event time that an expression is, over columns of which some are."""
    if isinstance(expr, Column):
        return known.get(expr.index)
    if not isinstance(expr, Call) or not expr.args:
        return None
    inside = time_of(expr.args[0], known)
    if inside is None:
        return None
    if expr.name == "window_time" and inside.window:
        return EventTime()
    if expr.name == "field" and inside.window and expr.option.lower() == "end":
        return EventTime()
    if expr.name == "window" and not inside.window:
        length, slide, _ = window_option(expr)
        return EventTime(True, length) if length == slide else None
    return None


def window_option(call: Call) -> tuple[int, int, int]:
    """Length, slide and offset of a call of window()."""
    length, slide, offset = call.option.split(",")
    return int(length), int(slide), int(offset)


def window_time(window: Expr) -> Expr:
    """The last microsecond of a window."""
    return Call(window.type.field("start").type, "window_time", (window,))


def instant(expr: Expr, known: Times) -> Expr | None:
    """An expression's event time as a timestamp: itself, or the last moment of the window it is."""
    time = time_of(expr, known)
    if time is None:
        return None
    return window_time(expr) if time.window else expr


@dataclass(frozen=True)
class Linear:
    """An event time plus a constant number of microseconds. `exact` is false where a day may not have 24 hours."""

    time: Expr
    shift: int
    exact: bool = True


def linear(expr: Expr, known: Times) -> Linear | None:
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

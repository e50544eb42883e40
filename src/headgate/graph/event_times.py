"""Which columns are event times: the basis of windows, bounded joins, and dropping late rows.

A column is an event time if the watermark bounds it, so that rows with an earlier value are late: a stream's
watermarked column, the window of an aggregate, and columns derived from them by projections, joins and unions.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.graph.expressions import Call, Column, Expr


@dataclass(frozen=True)
class EventTime:
    """An instant, or a window with its length (None: it varies, as a session's does)."""

    window: bool = False
    length: int | None = None


EventTimes = dict[int, EventTime]
"""The event times among columns, by position."""


def time_of(expr: Expr, known: EventTimes) -> EventTime | None:
    """The event time that an expression gives, over columns with these event times; None if it gives none."""
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


def instant(expr: Expr, known: EventTimes) -> Expr | None:
    """An expression's event time as a timestamp: the expression, or the last microsecond of its window."""
    time = time_of(expr, known)
    if time is None:
        return None
    return window_time(expr) if time.window else expr

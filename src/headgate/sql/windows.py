"""window(), session_window(), rows_window() and window_time(): what they mean in the text, as calls and as windows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from headgate.graph import types as t
from headgate.graph.event_times import window_option, window_time
from headgate.graph.expressions import Call, Expr
from headgate.graph.operators import Window
from headgate.sql.dialect import start
from headgate.sql.durations import BadDuration, duration, spoken
from headgate.sql.times import is_window

if TYPE_CHECKING:
    from headgate.sql.expressions import ExpressionBinder

WINDOW_FUNCTIONS = {"window", "session_window", "rows_window", "window_time"}
ROWS = pa.struct([pa.field("start", t.BIGINT), pa.field("end", t.BIGINT)])
_MOST = {"window": 4, "session_window": 2, "rows_window": 2, "window_time": 1}
_USAGE = {
    "window": "window(ts, 'length'[, 'slide'[, 'offset']])",
    "session_window": "session_window(ts, 'gap')",
    "rows_window": "rows_window(n[, slide])",
    "window_time": "window_time(window)",
}


def window_call(binder: ExpressionBinder, name: str, node: exp.Anonymous) -> Expr:
    """A call of a window function; window() and session_window() keep their lengths in the call's option."""
    args = node.expressions
    least = 1 if name in ("window_time", "rows_window") else 2
    if not least <= len(args) <= _MOST[name]:
        raise binder.error(f"write {_USAGE[name]}", node)
    if name == "rows_window":
        return _rows(binder, node)
    on = binder.bind(args[0])
    if name == "window_time":
        if not is_window(on.type):
            raise binder.error(f"window_time takes a window, not {t.sql_name(on.type)}", args[0])
        return window_time(on)
    if is_window(on.type):
        on = window_time(on)
    if not t.is_time(on.type):
        raise binder.error(f"{name} takes a TIMESTAMP as its first argument, not {t.sql_name(on.type)}", args[0])
    lengths = [_duration(binder, a) for a in args[1:]]
    type_ = t.WINDOW if on.type == t.TIMESTAMP else t.WINDOW_NTZ
    if name == "session_window":
        if lengths[0] <= 0:
            raise binder.error("the gap of a session must be greater than 0", args[1])
        return Call(type_, name, (on,), str(lengths[0]))
    length = lengths[0]
    slide = lengths[1] if len(lengths) > 1 else length
    offset = lengths[2] if len(lengths) > 2 else 0
    _check(binder, args, length, slide, offset)
    return Call(type_, name, (on,), f"{length},{slide},{offset % slide}")


def as_window(call: Call) -> Window:
    """The window of a call over its time."""
    if call.name == "session_window":
        return Window("session", int(call.option), on=call.args[0])
    if call.name == "rows_window":
        length, slide = (int(n) for n in call.option.split(","))
        return Window("rows", length, slide)
    length, slide, offset = window_option(call)
    return Window("time", length, slide, offset, call.args[0])


def is_grouping(expr: Expr) -> bool:
    """Whether an expression is a window that GROUP BY may name."""
    return isinstance(expr, Call) and expr.name in ("window", "session_window", "rows_window")


def check_scalar(binder: ExpressionBinder, expr: Expr, node: exp.Expr) -> None:
    """Refuses windows where a row must be in exactly one: only tumbling windows of time are allowed."""
    for call in expr.walk():
        if not isinstance(call, Call) or not is_grouping(call):
            continue
        if call.name != "window":
            raise binder.error(f"{call.name} may stand in GROUP BY only", find_call(node, call.name))
        length, slide, _ = window_option(call)
        if length != slide:
            message = "a row is in several hopping windows; group by the window, or compute it in a subquery"
            raise binder.error(message, find_call(node, call.name))


def find_call(node: exp.Expr, name: str) -> exp.Expr:
    """The call of a function in a tree; the tree itself if it has none."""
    for inner in node.find_all(exp.Anonymous):
        if inner.name.lower() == name:
            return inner
    return node


def _check(binder: ExpressionBinder, args: list[exp.Expr], length: int, slide: int, offset: int) -> None:
    if length <= 0:
        raise binder.error("the length of a window must be greater than 0", args[1])
    if slide <= 0:
        raise binder.error("the slide of a window must be greater than 0", args[2])
    if slide > length:
        message = f"the slide ({spoken(slide)}) must not be longer than the window ({spoken(length)})"
        raise binder.error(message, args[2])
    if abs(offset) >= slide:
        raise binder.error(f"the offset must be shorter than the slide ({spoken(slide)})", args[3])


def _duration(binder: ExpressionBinder, node: exp.Expr) -> int:
    if isinstance(node, exp.Literal) and node.this.isdigit() and not node.is_string:
        return int(node.this)  # microseconds, as in Spark
    if not (isinstance(node, exp.Literal) and node.is_string):
        raise binder.error("a window's length is a constant such as '10 seconds'", node)
    try:
        return duration(node.this)
    except BadDuration as problem:
        raise binder.error(str(problem), node) from None


def _rows(binder: ExpressionBinder, node: exp.Anonymous) -> Expr:
    numbers = []
    for arg in node.expressions:
        text = arg.name if isinstance(arg, exp.Literal) and not arg.is_string else ""
        if not re.fullmatch(r"[1-9]\d{0,17}", text):
            raise binder.error("rows_window takes whole numbers of rows, at least 1", start(arg))
        numbers.append(int(text))
    length = numbers[0]
    slide = numbers[1] if len(numbers) > 1 else length
    if slide > length:
        raise binder.error(f"the slide ({slide} rows) must not be longer than the window ({length} rows)", node)
    return Call(ROWS, "rows_window", (), f"{length},{slide}")

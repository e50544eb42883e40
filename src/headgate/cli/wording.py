"""Operators and expressions as a person would write them: column names instead of positions, signs instead of names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from headgate.expressions.notation import INFIX, PREFIX, SUFFIX
from headgate.graph import operators as g
from headgate.graph.expressions import Call, Column, Expr, Foreign, Literal
from headgate.graph.types import sql_name

_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1000), ("µs", 1))


def expression(expr: Expr, names: Sequence[str]) -> str:
    """An expression over columns of these names.

    >>> from headgate.graph.types import BOOLEAN, INT
    >>> expression(Call(BOOLEAN, "gt", (Column(INT, 0), Literal(INT, 5))), ["t"])
    't > 5'
    """
    match expr:
        case Column(index=index):
            return names[index]
        case Literal(value=value):
            return _constant(value)
        case Foreign(sql=sql):
            return f"catalyst({sql})"
        case Call():
            return _call(expr, names)
    return expr.text


def duration(micros: int) -> str:
    """A length of time in its largest whole unit.

    >>> duration(10_000_000), duration(1_500_000), duration(-60_000_000)
    ('10 s', '1500 ms', '-1 min')
    """
    for unit, size in _UNITS:
        if micros and micros % size == 0:
            return f"{micros // size if micros > 0 else -(-micros // size)} {unit}"
    return "0 s"


def detail(node: g.Operator) -> str:
    """What an operator does, without its inputs and without its kind."""
    names = [n for source in node.inputs for n in source.schema.names]

    def say(expr: Expr) -> str:
        return expression(expr, names)

    match node:
        case g.Source():
            return node.stream
        case g.Select():
            return " AND ".join(map(say, node.predicates))
        case g.Project():
            shown = zip(node.exprs, node.schema.names, strict=True)
            return ", ".join(text if (text := say(e)) == name else f"{text} AS {name}" for e, name in shown)
        case g.Aggregate():
            return _aggregate(node, names)
        case g.Join():
            return _join(node)
        case g.Lookup():
            keys = zip(node.keys, node.table_keys, strict=True)
            on = [f"{expression(a, names)} = {expression(b, node.table_schema.names)}" for a, b in keys]
            on += [expression(r, [*names, *node.table_schema.names]) for r in node.residual]
            return f"{node.how} {node.table} ON {' AND '.join(on)}"
        case g.Union():
            return f"of {len(node.parts)}"
        case g.Distinct():
            return f"rows, kept until {say(node.time)}"
        case g.Expand():
            return f"into {_window(node.window, names)}"
        case g.Split():
            return " | ".join(map(say, node.conditions))
        case g.Top():
            order = ", ".join(say(o.expr) + (" DESC" if o.descending else "") for o in node.order)
            partition = ", ".join(map(say, node.partition))
            return f"{node.count} by {node.ranking} of each {partition}, ordered by {order}"
    return node.detail


def _constant(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | date | datetime):
        return f"'{value}'"
    return str(value)


def _call(call: Call, names: Sequence[str]) -> str:
    inside = [expression(a, names) for a in call.args]
    if call.name in ("cast", "try_cast"):
        # A widening that the binder put in says nothing to a reader.
        return inside[0] if isinstance(call.args[0], Literal) else f"{inside[0]}::{sql_name(call.type)}"
    if call.name in INFIX or call.name in PREFIX:
        inside = [
            f"({text})" if isinstance(arg, Call) and arg.name in INFIX else text
            for text, arg in zip(inside, call.args, strict=True)
        ]
    if call.name in INFIX and len(inside) >= 2:
        return f" {INFIX[call.name]} ".join(inside)
    if call.name in PREFIX:
        return PREFIX[call.name] + inside[0]
    if call.name in SUFFIX:
        return inside[0] + SUFFIX[call.name]
    if call.name == "in":
        return f"{inside[0]} IN ({', '.join(inside[1:])})"
    if call.name == "field":
        return f"{inside[0]}.{call.option}"
    if call.name == "case":
        pairs = [f"WHEN {inside[i]} THEN {inside[i + 1]}" for i in range(0, len(inside) - 1, 2)]
        otherwise = f" ELSE {inside[-1]}" if len(inside) % 2 else ""
        return f"CASE {' '.join(pairs)}{otherwise} END"
    if call.name == "python":
        return f"{call.option.rpartition(':')[2]}({', '.join(inside)})"
    return f"{call.name}({', '.join(inside)})"


def _window(window: g.Window, names: Sequence[str]) -> str:
    if window.kind == "rows":
        slide = f" every {window.slide}" if window.slide not in (0, window.length) else ""
        return f"windows of {window.length} rows{slide}"
    on = expression(window.on, names) if window.on is not None else ""
    if window.kind == "session":
        return f"sessions of {on} with gap {duration(window.length)}"
    slide = f" every {duration(window.slide)}" if window.slide not in (0, window.length) else ""
    offset = f" from {duration(window.offset)}" if window.offset else ""
    return f"windows of {duration(window.length)}{slide}{offset} of {on}"


def _aggregate(node: g.Aggregate, names: Sequence[str]) -> str:
    calls = []
    for call in node.calls:
        inside = ", ".join(expression(a, names) for a in call.args) or "*"
        where = f" FILTER ({expression(call.where, names)})" if call.where is not None else ""
        calls.append(f"{call.name}({'DISTINCT ' if call.distinct else ''}{inside}){where}")
    text = ", ".join(calls) or "groups"
    if node.keys:
        text += " by " + ", ".join(expression(k, names) for k in node.keys)
    if node.window is not None:
        text += " in " + _window(node.window, names)
    if node.having is not None:
        text += f" having {expression(node.having, node.schema.names)}"
    return text


def _join(node: g.Join) -> str:
    left, right = node.left.schema.names, node.right.schema.names
    keys = zip(node.left_keys, node.right_keys, strict=True)
    on = [f"{expression(a, left)} = {expression(b, right)}" for a, b in keys]
    on += [expression(r, [*left, *right]) for r in node.residual]
    bound = node.bound
    low = "…" if bound.low is None else duration(bound.low)
    high = "…" if bound.high is None else duration(bound.high)
    times = f"{expression(bound.right, right)} - {expression(bound.left, left)}"
    return f"{node.how} on {' AND '.join(on) or 'time alone'}, {times} in [{low}, {high}]"

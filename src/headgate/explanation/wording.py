"""Operators and expressions for users: column names instead of positions, symbols instead of function names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from headgate.expressions.notation import INFIX, PREFIX, SUFFIX
from headgate.graph.expressions import Call, Column, Expr, Foreign, Literal
from headgate.graph.operators import Operator
from headgate.graph.types import sql_name


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


def detail(node: Operator) -> str:
    """What an operator does, without its inputs and without its kind."""
    return node.describe(expression)


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
        # The cast of a constant, which the binder inserted, is not shown.
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

"""How many of the first rows a condition on a rank lets through."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from headgate.graph.expressions import Call, Column, Expr, Literal

_MIRRORED = {"ge": "le", "gt": "lt", "eq": "eq", "eq_null_safe": "eq_null_safe"}


def highest_rank(p: Expr, rank: int) -> tuple[int | None, bool]:
    """The highest rank that a condition allows (None: any), and whether it allows all lower ranks too.

    `rank` is the position of the rank's column.

    >>> import pyarrow as pa
    >>> r, two, four = Column(pa.int32(), 0), Literal(pa.int32(), 2), Literal(pa.int32(), 4)
    >>> highest_rank(Call(pa.bool_(), "lt", (r, four)), 0)
    (3, True)
    >>> highest_rank(Call(pa.bool_(), "or", (Call(pa.bool_(), "eq", (four, r)), Call(pa.bool_(), "le", (r, two)))), 0)
    (4, False)
    """
    if not isinstance(p, Call):
        return None, False
    if p.name in ("or", "and"):
        found = [highest_rank(arg, rank)[0] for arg in p.args]
        known = [most for most in found if most is not None]
        if p.name == "or":
            return (max(known), False) if len(known) == len(found) else (None, False)
        return (min(known), False) if known else (None, False)
    if p.name == "in" and _is_rank(p.args[0], rank):
        values = [value for arg in p.args[1:] if (value := _number(arg, _floor)) is not None]
        return (max(values), False) if len(values) == len(p.args) - 1 else (None, False)
    if len(p.args) != 2:
        return None, False
    name, (a, b) = p.name, p.args
    if isinstance(a, Literal):
        name, a, b = _MIRRORED.get(name, ""), b, a
    if not _is_rank(a, rank):
        return None, False
    value = _number(b, _ceiling if name == "lt" else _floor)
    if value is None or name not in ("le", "lt", "eq", "eq_null_safe"):
        return None, False
    if name == "lt":
        return value - 1, True
    return value, name == "le" or (value == 1 and isinstance(b, Literal) and b.value == 1)


def _is_rank(expr: Expr, rank: int) -> bool:
    """Whether an expression is the rank, perhaps as another type of numbers, which keeps the order."""
    while isinstance(expr, Call) and expr.name == "cast" and _is_number(expr.type):
        expr = expr.args[0]
    return isinstance(expr, Column) and expr.index == rank


def _is_number(type_: object) -> bool:
    return str(type_) in ("int32", "int64") or str(type_).startswith("decimal")


def _number(expr: Expr, rounded: Callable[[Decimal], int]) -> int | None:
    """A constant as a whole number; None if it is not a number."""
    value = expr.value if isinstance(expr, Literal) else None
    return rounded(Decimal(value)) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) else None


def _floor(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_FLOOR))


def _ceiling(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_CEILING))

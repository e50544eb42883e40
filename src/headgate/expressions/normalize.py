"""Canonical forms of predicates: equal conditions that are written differently become equal expressions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headgate.expressions.functions import fallible
from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.types import BOOLEAN

# The comparison with its operands exchanged, and its negation; both hold in three-valued logic.
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq_null_safe": "eq_null_safe"}
_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
_COMMUTATIVE = {"add", "multiply", "eq", "ne", "eq_null_safe", "and", "or", "bitand", "bitor", "bitxor"}


def normalize(expr: Expr) -> Expr:
    """The canonical form: negations pushed inwards, constants on the right, operands of commutative calls sorted.

    >>> from headgate.graph.expressions import Column
    >>> from headgate.graph.types import INT
    >>> five, a = Literal(INT, 5), Column(INT, 0)
    >>> normalize(Call(BOOLEAN, "lt", (five, a))) == normalize(Call(BOOLEAN, "gt", (a, five)))
    True
    """
    if not isinstance(expr, Call):
        return expr
    args = tuple(normalize(a) for a in expr.args)
    name = expr.name
    if name == "not" and isinstance(args[0], Call):
        inner = args[0]
        if inner.name == "not":
            return inner.args[0]
        if inner.name in _OPPOSITE:
            return normalize(Call(BOOLEAN, _OPPOSITE[inner.name], inner.args))
        if inner.name in ("and", "or") and not fallible(inner):
            flipped = tuple(Call(BOOLEAN, "not", (a,)) for a in inner.args)
            return normalize(Call(BOOLEAN, "or" if inner.name == "and" else "and", flipped))
    if name in ("and", "or"):
        return _connective(name, args)
    if name in _MIRRORED and _later(args[0], args[1]):
        name, args = _MIRRORED[name], (args[1], args[0])
    elif name in _COMMUTATIVE and len(args) == 2 and _later(args[0], args[1]):
        args = (args[1], args[0])
    return replace(expr, name=name, arguments=args)


def conjunction(predicates: Iterable[Expr]) -> tuple[Expr, ...]:
    """The distinct terms of an AND in canonical order; terms that may fail come last, in the order written."""
    return _terms("and", (normalize(p) for p in predicates))


def _later(first: Expr, second: Expr) -> bool:
    """Whether the first operand comes after the second in canonical order: constants last, then by text."""
    return (isinstance(first, Literal), first.text) > (isinstance(second, Literal), second.text)


def _terms(name: str, args: Iterable[Expr]) -> tuple[Expr, ...]:
    flat: dict[Expr, None] = {}
    for arg in args:
        inside = arg.args if isinstance(arg, Call) and arg.name == name else (arg,)
        flat.update(dict.fromkeys(inside))
    safe = sorted((e for e in flat if not fallible(e)), key=lambda e: e.text)
    return (*safe, *(e for e in flat if fallible(e)))


def _connective(name: str, args: tuple[Expr, ...]) -> Expr:
    terms = _terms(name, args)
    return terms[0] if len(terms) == 1 else Call(BOOLEAN, name, terms)

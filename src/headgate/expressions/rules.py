"""Typing rules that functions of several topics share."""

from __future__ import annotations

import pyarrow as pa

from headgate.expressions.coercion import implicit
from headgate.expressions.signature import Literals, Rule, Signature, Types, count_arguments
from headgate.graph.types import NULL


def takes(
    wanted: tuple[pa.DataType, ...], result: pa.DataType, least: int | None = None, constant: tuple[int, ...] = ()
) -> Rule:
    """A rule for fixed types; the kernel needs literals at the `constant` positions."""

    def rule(name: str, types: Types, literals: Literals) -> Signature:
        count_arguments(name, types, len(wanted) if least is None else least, len(wanted))
        args = tuple(implicit(name, i, t, w) for i, (t, w) in enumerate(zip(types, wanted, strict=False)))
        native = all(i >= len(types) or is_literal(types[i], literals[i]) for i in constant)
        return Signature(name, args, result, native)

    return rule


def is_literal(type_: pa.DataType, value: object | None) -> bool:
    """Whether an argument is a constant: a value, or a NULL without type."""
    return value is not None or type_ == NULL

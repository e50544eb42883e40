"""Looks up functions: the canonical name, and the typed call.

Spark 4 in ANSI mode is the model. Operators are functions too (`add`, `eq`, `case` …). Aliases share one
canonical name, so that calls by either name are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import pyarrow as pa

from headgate.expressions import (  # noqa: F401 - importing a topic enters its functions
    catalyst,
    collections,
    comparison,
    conditions,
    mathematics,
    python,
)
from headgate.expressions.aggregates import approximate, counts, extremes, moments, sums  # noqa: F401
from headgate.expressions.aggregates.registry import accumulator, is_aggregate, resolve_aggregate
from headgate.expressions.arithmetic import bits, operators, rounding, tolerant  # noqa: F401
from headgate.expressions.casts.cast import cast_signature
from headgate.expressions.coercion import can_cast, common_type
from headgate.expressions.registry import ALIASES, FUNCTIONS, completed, fallible, may_fail
from headgate.expressions.signature import FunctionError, Signature, UnknownFunction, WrongArguments
from headgate.expressions.strings import parts, patterns, text  # noqa: F401
from headgate.expressions.times import dates, formats, instants, interval_parts, moving  # noqa: F401

__all__ = [
    "FunctionError",
    "Signature",
    "UnknownFunction",
    "WrongArguments",
    "accumulator",
    "can_cast",
    "canonical",
    "cast_signature",
    "common_type",
    "fallible",
    "is_aggregate",
    "may_fail",
    "resolve",
    "resolve_aggregate",
]


def canonical(name: str) -> str | None:
    """The canonical name of a function that can be called by name, or None.

    >>> canonical("UCASE"), canonical("nosuch"), canonical("cast")
    ('upper', None, None)
    """
    lower = name.lower()
    found = FUNCTIONS.get(ALIASES.get(lower, lower))
    return found.name if found is not None and found.types is not None else None


def resolve(
    name: str, args: Sequence[pa.DataType], literals: Sequence[object | None] | None = None, option: str = ""
) -> Signature:
    """Types a call. `literals` holds the value of each argument that is a literal, None for the others.

    `option` is the member name for `field`; other functions ignore it.

    Raises UnknownFunction or WrongArguments.

    >>> resolve("add", [pa.int32(), pa.int64()]).result
    DataType(int64)
    """
    lower = name.lower()
    function = FUNCTIONS.get(ALIASES.get(lower, lower))
    if function is None or function.types is None:
        close = get_close_matches(lower, [*FUNCTIONS, *ALIASES], 1)
        raise UnknownFunction(name, close[0] if close else None)
    values = tuple(literals) if literals is not None else (None,) * len(args)
    if function.name == "field":
        signature = collections.field_signature(tuple(args), option)
    else:
        signature = function.types(function.name, tuple(args), values)
    return completed(signature, values)

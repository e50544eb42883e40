"""The catalogue of functions: what each is called, what it takes and gives, and whether it may fail.

Spark 4 in ANSI mode is the model. `resolve` types a call; operators are functions too (`add`, `eq`, `case` …).
Names that mean the same share one canonical name, so that expressions written differently are found equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

import pyarrow as pa

from headgate.expressions import foreign  # noqa: F401 - it fills the catalogue
from headgate.expressions.aggregates import is_aggregate, resolve_aggregate
from headgate.expressions.coercion import can_cast, common_type
from headgate.expressions.signature import (
    ALIASES,
    CATALOGUE,
    AggregateSignature,
    Fails,
    FunctionError,
    Signature,
    UnknownFunction,
    WrongArguments,
    count_arguments,
)
from headgate.expressions.typing_rules import (  # noqa: F401 - they fill the catalogue
    arithmetic,
    collections,
    logic,
    mathematics,
    strings,
    times,
)
from headgate.expressions.typing_rules.casts import cast_fails
from headgate.expressions.typing_rules.logic import cast_signature
from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
)

__all__ = [
    "AggregateSignature",
    "FunctionError",
    "Signature",
    "UnknownFunction",
    "WrongArguments",
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

# Casts that are written as functions: `int(x)`.
_CONVERSIONS = {
    "boolean": BOOLEAN,
    "tinyint": TINYINT,
    "smallint": SMALLINT,
    "int": INT,
    "bigint": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "decimal": pa.decimal128(10, 0),
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
}
# Casts and Python functions have a type of their own choosing, so no rule can give it.
_UNRULED: dict[str, Fails] = {
    "cast": cast_fails,
    "try_cast": lambda args, result, literals: False,
    "python": lambda args, result, literals: True,
}


def canonical(name: str) -> str | None:
    """The canonical name of a function, or None if there is none of that name.

    >>> canonical("NVL"), canonical("nosuch")
    ('coalesce', None)
    """
    lower = name.lower()
    found = ALIASES.get(lower, lower)
    return found if found in CATALOGUE or found in _CONVERSIONS else None


def resolve(
    name: str, args: Sequence[pa.DataType], literals: Sequence[object | None] | None = None, option: str = ""
) -> Signature:
    """Types a call. `literals` holds the value of each argument that is a literal, None for the others.

    `option` is the member name for `field`; other functions ignore it.

    Raises UnknownFunction or WrongArguments.

    >>> resolve("add", [pa.int32(), pa.int64()]).result
    DataType(int64)
    """
    found = canonical(name)
    if found is None:
        close = get_close_matches(name.lower(), [*CATALOGUE, *ALIASES], 1)
        raise UnknownFunction(name, close[0] if close else None)
    values = tuple(literals) if literals is not None else (None,) * len(args)
    if found in _CONVERSIONS:
        count_arguments(found, args, 1)
        return cast_signature(args[0], _CONVERSIONS[found])
    if found == "field":
        return collections.field_signature(tuple(args), option)
    signature = CATALOGUE[found].rule(found, tuple(args), values)
    return replace(signature, fallible=may_fail(signature.name, signature.args, signature.result, values))


def may_fail(
    name: str, args: tuple[pa.DataType, ...], result: pa.DataType, literals: tuple[object | None, ...] = ()
) -> bool:
    """Whether a call may raise on some row (ANSI overflow, division by zero, a malformed cast …).

    `literals` as in `resolve`; without them the worst is assumed.
    """
    if name in _UNRULED:
        return _UNRULED[name](args, result, literals)
    entry = CATALOGUE.get(name)
    return entry is None or entry.may_fail(
        args, result, literals if len(literals) == len(args) else (None,) * len(args)
    )


def fallible(expr: Expr) -> bool:
    """Whether evaluating it may raise on some row, so that it must not see rows that were filtered out.

    The answer is kept with the expression object.
    """
    found: bool | None = expr.__dict__.get("_fallible")
    if found is None:
        found = any(fallible(arg) for arg in expr.args) or (isinstance(expr, Call) and _call_may_fail(expr))
        expr.__dict__["_fallible"] = found
    return found


def _call_may_fail(call: Call) -> bool:
    types = tuple(a.type for a in call.args)
    return may_fail(call.name, types, call.type, tuple(a.value if isinstance(a, Literal) else None for a in call.args))

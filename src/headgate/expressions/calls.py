"""Builds typed calls: resolves a function, casts its arguments as Spark does, and sets the time zone if it matters."""

from __future__ import annotations

import pyarrow as pa

from headgate.expressions import functions
from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.types import NULL, sql_name


class NotNative(functions.FunctionError):
    """A valid call that only Catalyst can compute. `type` is its result type."""

    def __init__(self, name: str, type_: pa.DataType) -> None:
        self.name = name
        self.type = type_
        super().__init__(f"{name} giving {sql_name(type_)} has no kernel here; only Spark can compute it at the source")


def call(name: str, *args: Expr, zone: str = "UTC", option: str = "") -> Expr:
    """A call of a function with its arguments cast to the types it takes.

    Raises UnknownFunction, WrongArguments or NotNative.

    >>> from headgate.graph.expressions import Column
    >>> from headgate.graph.types import BIGINT, INT
    >>> call("add", Column(INT, 0), Column(BIGINT, 1)).text
    'add(cast(#0):int64, #1):int64'
    """
    literals = tuple(a.value if isinstance(a, Literal) else None for a in args)
    signature = functions.resolve(name, [a.type for a in args], literals, option)
    if not signature.native:
        raise NotNative(signature.name, signature.result)
    cast_args = tuple(cast(a, t, zone) for a, t in zip(args, signature.args, strict=True))
    return Call(signature.result, signature.name, cast_args, zone_option(zone) if signature.zoned else option)


def cast(expr: Expr, wanted: pa.DataType, zone: str = "UTC", name: str = "cast") -> Expr:
    """The expression as another type; itself if it has it already. `name` may be `try_cast`."""
    if expr.type == wanted:
        return expr
    if isinstance(expr, Literal) and (expr.value is None or expr.type == NULL):
        return Literal(wanted, None)
    signature = functions.cast_signature(expr.type, wanted, name)
    if not signature.native:
        raise NotNative(f"{name} from {sql_name(expr.type)}", wanted)
    return Call(wanted, name, (expr,), zone_option(zone) if signature.zoned else "")


def zone_option(zone: str) -> str:
    """The option of a zoned call: empty for all names of UTC, so that equal calls are equal."""
    return "" if zone in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00") else zone

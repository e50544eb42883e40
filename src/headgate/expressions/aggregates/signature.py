"""How an aggregate function is called, and the typing rules that several of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from headgate.expressions.signature import Types, WrongArguments, count_arguments
from headgate.graph.types import BIGINT, BOOLEAN, NULL, is_key, sql_name


@dataclass(frozen=True)
class AggregateSignature:
    """The canonical name of an aggregate, the types its arguments are cast to, its result, and its option.

    Options, by name: `first`, `last`, `any_value`: `"ignore nulls"` or empty; `approx_count_distinct`: the
    relative standard deviation as text (default `0.05`); all others: empty.
    """

    name: str
    args: Types
    result: pa.DataType
    option: str = ""


AggregateRule = Callable[[str, Types], AggregateSignature]
"""Types a call: (canonical name, argument types) gives its signature or raises WrongArguments."""


def conditions(name: str, types: Types) -> AggregateSignature:
    """One BOOLEAN argument."""
    count_arguments(name, types, 1)
    if types[0] not in (BOOLEAN, NULL):
        raise WrongArguments(f"{name} takes conditions, not {sql_name(types[0])}", 0)
    return AggregateSignature(name, (BOOLEAN,), BIGINT if name == "count_if" else BOOLEAN)


def check_comparable(name: str, types: Types) -> None:
    """Refuses arguments whose values cannot be compared for equality."""
    for position, type_ in enumerate(types):
        if not is_key(type_):
            message = f"{name} cannot compare values of {sql_name(type_)}; name one of its elements"
            raise WrongArguments(message, position)

"""Types of aggregate functions; `headgate.operators.aggregate` computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa

from headgate.expressions.coercion import bounded, implicit, is_decimal
from headgate.expressions.signature import (
    Types,
    UnknownFunction,
    WrongArguments,
    count_arguments,
)
from headgate.graph.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTERVAL,
    NULL,
    STRING,
    is_integral,
    is_key,
    is_numeric,
    sql_name,
)

_ALIASES = {
    "mean": "avg",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "first_value": "first",
    "last_value": "last",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
}

_REFUSED = {
    "collect_list": "the state would grow with the rows",
    "collect_set": "the state would grow with the rows",
    "array_agg": "the state would grow with the rows",
    "listagg": "the state would grow with the rows",
    "string_agg": "the state would grow with the rows",
    "percentile": "exact percentiles keep every row",
    "median": "exact percentiles keep every row",
    "percentile_approx": "its result depends on the order of the rows",
    "approx_percentile": "its result depends on the order of the rows",
    "mode": "it keeps a count of every value",
    "histogram_numeric": "its result depends on the order of the rows",
}


@dataclass(frozen=True)
class AggregateSignature:
    """How one aggregate is called: the types its arguments are cast to, its result, and its option.

    Options, by name: `first`, `last`, `any_value`: `"ignore nulls"` or empty; `approx_count_distinct`: the
    relative standard deviation as text (default `0.05`); all others: empty. Canonical names: count (no argument:
    all rows), sum, avg, min, max, stddev_samp, stddev_pop, var_samp, var_pop, first, last, bool_and, bool_or,
    count_if, approx_count_distinct, min_by, max_by, corr, covar_samp, covar_pop, skewness, kurtosis.
    """

    name: str
    args: Types
    result: pa.DataType
    option: str = ""


def _count(name: str, types: Types) -> AggregateSignature:
    """count(*) has no arguments; count(a, b) counts the rows where neither is null."""
    return AggregateSignature(name, types, BIGINT)


def _sum(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 1)
    (type_,) = types
    if type_ in (STRING, NULL):
        return AggregateSignature(name, (DOUBLE,), DOUBLE)
    if is_integral(type_):
        return AggregateSignature(name, types, BIGINT)
    if is_decimal(type_):
        return AggregateSignature(name, types, bounded(type_.precision + 10, type_.scale))
    if type_ == INTERVAL:
        return AggregateSignature(name, types, INTERVAL)
    _numeric(name, type_)
    return AggregateSignature(name, (DOUBLE,), DOUBLE)


def _avg(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 1)
    (type_,) = types
    if is_decimal(type_):
        return AggregateSignature(name, types, bounded(type_.precision + 4, type_.scale + 4))
    if type_ == INTERVAL:
        return AggregateSignature(name, types, INTERVAL)
    if type_ not in (STRING, NULL):
        _numeric(name, type_)
    return AggregateSignature(name, types if is_integral(type_) else (DOUBLE,), DOUBLE)


def _numeric(name: str, type_: pa.DataType) -> None:
    if not is_numeric(type_):
        raise WrongArguments(f"{name} takes numbers, not {sql_name(type_)}", 0)


def _doubles(count: int) -> Callable[[str, Types], AggregateSignature]:
    def rule(name: str, types: Types) -> AggregateSignature:
        count_arguments(name, types, count)
        return AggregateSignature(name, tuple(implicit(name, i, t, DOUBLE) for i, t in enumerate(types)), DOUBLE)

    return rule


def _same(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 1)
    _ordered(name, types, 0)
    return AggregateSignature(name, types, types[0])


def _ordered(name: str, types: Types, position: int) -> None:
    if not is_key(types[position]):
        raise WrongArguments(f"{name} cannot order {sql_name(types[position])}; name one of its elements", position)


def _picked(name: str, types: Types) -> AggregateSignature:
    """first(x[, ignore nulls]); the binder passes the flag as the option."""
    count_arguments(name, types, 1)
    return AggregateSignature(name, types, types[0])


def _conditions(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 1)
    if types[0] not in (BOOLEAN, NULL):
        raise WrongArguments(f"{name} takes conditions, not {sql_name(types[0])}", 0)
    return AggregateSignature(name, (BOOLEAN,), BIGINT if name == "count_if" else BOOLEAN)


def _approximate(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 1)
    _told_apart(name, types)
    return AggregateSignature(name, types, BIGINT, "0.05")


def _told_apart(name: str, types: Types) -> None:
    for position, type_ in enumerate(types):
        if not is_key(type_):
            message = f"{name} cannot compare values of {sql_name(type_)}; name one of its elements"
            raise WrongArguments(message, position)


def _by(name: str, types: Types) -> AggregateSignature:
    count_arguments(name, types, 2)
    _ordered(name, types, 1)
    return AggregateSignature(name, types, types[0])


_RULES: dict[str, Callable[[str, Types], AggregateSignature]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _same,
    "max": _same,
    "first": _picked,
    "last": _picked,
    "any_value": _picked,
    "bool_and": _conditions,
    "bool_or": _conditions,
    "count_if": _conditions,
    "approx_count_distinct": _approximate,
    "min_by": _by,
    "max_by": _by,
    **dict.fromkeys(("stddev_samp", "stddev_pop", "var_samp", "var_pop", "skewness", "kurtosis"), _doubles(1)),
    **dict.fromkeys(("corr", "covar_samp", "covar_pop"), _doubles(2)),
}

_NOT_DISTINCT = frozenset({"approx_count_distinct", "first", "last", "any_value", "min_by", "max_by", "corr"})


def is_aggregate(name: str) -> bool:
    """Whether the name is that of an aggregate, supported or not.

    >>> is_aggregate("MEAN"), is_aggregate("collect_list"), is_aggregate("upper")
    (True, True, False)
    """
    lower = name.lower()
    return lower in _RULES or lower in _ALIASES or lower in _REFUSED


def resolve_aggregate(name: str, args: Sequence[pa.DataType], distinct: bool = False) -> AggregateSignature:
    """Types an aggregate. `args` are without flags: `first(x, true)` is `first(x)` and the option "ignore nulls".

    Raises UnknownFunction or WrongArguments.

    >>> resolve_aggregate("sum", [pa.int32()]).result
    DataType(int64)
    """
    lower = name.lower()
    if lower in _REFUSED:
        raise WrongArguments(f"{lower} is not supported on streams: {_REFUSED[lower]}")
    found = _ALIASES.get(lower, lower)
    if found not in _RULES:
        close = get_close_matches(lower, [*_RULES, *_ALIASES], 1)
        raise UnknownFunction(name, close[0] if close else None)
    if distinct and found in _NOT_DISTINCT:
        raise WrongArguments(f"{lower} does not take DISTINCT")
    if distinct:
        _told_apart(f"{lower}(DISTINCT …)", tuple(args))
    return _RULES[found](found, tuple(args))

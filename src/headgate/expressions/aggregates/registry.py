"""The registry of aggregate functions: names, typing rule and accumulator, registered in one place.

The module of a topic registers its functions when it is imported; `headgate.expressions.functions` imports them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa

from headgate.expressions.aggregates.accumulator import Accumulator
from headgate.expressions.aggregates.distinct_values import DistinctValues
from headgate.expressions.aggregates.python import PythonAggregate
from headgate.expressions.aggregates.signature import AggregateRule, AggregateSignature, check_comparable
from headgate.expressions.signature import UnknownFunction, WrongArguments
from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.operators import AggregateCall
from headgate.graph.types import BOOLEAN

AccumulatorMaker = Callable[[AggregateCall, tuple[Expr, ...]], Accumulator]
"""Creates the accumulator of a call from its arguments, which are null in rows that its FILTER clause excludes."""


@dataclass(frozen=True)
class AggregateFunction:
    """One aggregate function. `distinct`: it accepts DISTINCT. `keeps_nulls`: null arguments are values like others."""

    types: AggregateRule
    make: AccumulatorMaker
    distinct: bool = True
    keeps_nulls: bool = False


AGGREGATES: dict[str, AggregateFunction] = {}
"""Every aggregate function by canonical name."""

_ALIASES: dict[str, str] = {}

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

_NONE: Mapping[str, str] = {}


def aggregate(
    *names: str,
    types: AggregateRule,
    aliases: Mapping[str, str] = _NONE,
    distinct: bool = True,
    keeps_nulls: bool = False,
) -> Callable[[AccumulatorMaker], AccumulatorMaker]:
    """Registers aggregates that share a rule and the decorated maker. `aliases` maps alias to canonical name."""

    def register(make: AccumulatorMaker) -> AccumulatorMaker:
        for name in names:
            if name in AGGREGATES:
                raise ValueError(f"the aggregate function {name} is registered twice")
            AGGREGATES[name] = AggregateFunction(types, make, distinct, keeps_nulls)
        _ALIASES.update(aliases)
        return make

    return register


def is_aggregate(name: str) -> bool:
    """Whether the name is that of an aggregate, supported or not.

    >>> is_aggregate("MEAN"), is_aggregate("collect_list"), is_aggregate("upper")
    (True, True, False)
    """
    lower = name.lower()
    return lower in AGGREGATES or lower in _ALIASES or lower in _REFUSED


def resolve_aggregate(name: str, args: Sequence[pa.DataType], distinct: bool = False) -> AggregateSignature:
    """Types an aggregate. `args` are without flags: `first(x, true)` is `first(x)` and the option "ignore nulls".

    Raises UnknownFunction or WrongArguments.

    >>> resolve_aggregate("sum", [pa.int32()]).result
    DataType(int64)
    """
    lower = name.lower()
    if lower in _REFUSED:
        raise WrongArguments(f"{lower} is not supported on streams: {_REFUSED[lower]}")
    canonical = _ALIASES.get(lower, lower)
    if canonical not in AGGREGATES:
        close = get_close_matches(lower, [*AGGREGATES, *_ALIASES], 1)
        raise UnknownFunction(name, close[0] if close else None)
    function = AGGREGATES[canonical]
    if distinct and not function.distinct:
        raise WrongArguments(f"{lower} does not take DISTINCT")
    if distinct:
        check_comparable(f"{lower}(DISTINCT …)", tuple(args))
    return function.types(canonical, tuple(args))


def accumulator(call: AggregateCall) -> Accumulator:
    """The accumulator of an aggregate call. Raises ValueError for an unknown function."""
    if call.name == "python":
        return PythonAggregate(call, _filtered(call, keeps_nulls=True))
    function = AGGREGATES.get(call.name)
    if function is None:
        raise ValueError(f"there is no aggregate function {call.name}")
    plain = function.make(call, _filtered(call, function.keeps_nulls))
    return DistinctValues(plain) if call.distinct and plain.inputs else plain


def _filtered(call: AggregateCall, keeps_nulls: bool) -> tuple[Expr, ...]:
    """The arguments of a call: null, and not computed, in rows for which its FILTER clause is not true."""
    if call.where is None:
        return call.args
    passed = _where(call.where, Literal(BOOLEAN, True))
    values = tuple(_where(call.where, arg) for arg in call.args)
    # If null is a value, or there is no argument (count), an extra column marks the rows that count.
    return (*values, passed) if keeps_nulls or not values else values


def _where(condition: Expr, value: Expr) -> Call:
    return Call(value.type, "case", (condition, value, Literal(value.type, None)))

"""What a function is called with and gives, and the errors of calling it wrongly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

Types = tuple[pa.DataType, ...]
Literals = tuple[object | None, ...]


class FunctionError(ValueError):
    """A call that has no meaning. Subclasses: UnknownFunction, WrongArguments."""


class UnknownFunction(FunctionError):
    """No function has this name; `closest` is the most similar one, or None."""

    def __init__(self, name: str, closest: str | None) -> None:
        self.name = name
        self.closest = closest
        hint = f"; did you mean {closest}?" if closest else ""
        super().__init__(f"unknown function {name}{hint}")


class WrongArguments(FunctionError):
    """The function exists but does not take these arguments; `position` is the first wrong one (from 0), or None."""

    def __init__(self, message: str, position: int | None = None) -> None:
        self.position = position
        super().__init__(message)


@dataclass(frozen=True)
class Signature:
    """How one call is made.

    `args` are the types that the arguments must be cast to, one for each; `native`: a kernel exists, otherwise
    Catalyst has to compute it; `fallible`: it may raise on some row (`resolve` sets it, rules do not); `zoned`: the
    result depends on the session time zone, which then stands in `Call.option` (an empty option is UTC).
    """

    name: str
    args: Types
    result: pa.DataType
    native: bool = True
    fallible: bool = False
    zoned: bool = False


Rule = Callable[[str, Types, Literals], Signature]
"""Types a call: (canonical name, argument types, literal values or None) gives its signature or raises."""

Fails = Callable[[Types, pa.DataType, Literals], bool]
"""Whether a call may raise: (argument types after casts, result type, literal values or None)."""


@dataclass(frozen=True)
class Entry:
    """One function of the catalogue."""

    name: str
    rule: Rule
    fails: bool | Fails = False

    def may_fail(self, args: Types, result: pa.DataType, literals: Literals) -> bool:
        return self.fails if isinstance(self.fails, bool) else self.fails(args, result, literals)


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


CATALOGUE: dict[str, Entry] = {}
"""Every function by canonical name."""

ALIASES: dict[str, str] = {}
"""Other names of the same functions."""


def function(name: str, *aliases: str, fails: bool | Fails = False) -> Callable[[Rule], Rule]:
    """Enters a rule into the catalogue under a canonical name and its aliases."""

    def enter(rule: Rule) -> Rule:
        CATALOGUE[name] = Entry(name, rule, fails)
        ALIASES.update((alias, name) for alias in aliases)
        return rule

    return enter


def count_arguments(name: str, types: Sequence[pa.DataType], least: int, most: int | None = None) -> None:
    """Refuses a wrong number of arguments."""
    most = least if most is None else most
    if least <= len(types) <= most:
        return
    wanted = str(least) if least == most else f"{least} to {most}" if most < 99 else f"at least {least}"
    plural = "" if wanted == "1" else "s"
    raise WrongArguments(f"{name} takes {wanted} argument{plural}, not {len(types)}", min(len(types), most) or None)

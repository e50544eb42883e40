"""The signature of a call: argument types, result type; and the errors of wrong calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

Types = tuple[pa.DataType, ...]
Literals = tuple[object | None, ...]


class FunctionError(ValueError):
    """A call that is refused. Subclasses: UnknownFunction, WrongArguments."""


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
    """The types of one call, and whether a kernel or Catalyst computes it.

    - `args`: the types that the arguments must be cast to, one per argument
    - `native`: the function's kernel computes the call; if false, Catalyst does. The registry clears it for functions
      without a kernel.
    - `fallible`: the call may raise on some row; set by the registry, not by rules
    - `zoned`: the result depends on the session time zone, which is then in `Call.option` (empty: UTC)
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


def count_arguments(name: str, types: Sequence[pa.DataType], least: int, most: int | None = None) -> None:
    """Refuses a wrong number of arguments."""
    most = least if most is None else most
    if least <= len(types) <= most:
        return
    wanted = str(least) if least == most else f"{least} to {most}" if most < 99 else f"at least {least}"
    plural = "" if wanted == "1" else "s"
    raise WrongArguments(f"{name} takes {wanted} argument{plural}, not {len(types)}", min(len(types), most) or None)

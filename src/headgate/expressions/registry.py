"""The registry of functions: names, typing rule, whether a call may fail, and the kernel, registered in one place.

The module of a topic registers its functions when it is imported; `headgate.expressions.functions` imports them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.expressions.kernels import Kernel, Maker, Value
from headgate.expressions.signature import Fails, Rule, Signature
from headgate.graph.expressions import Call, Expr, Literal

Run = Callable[[Any], Value]
"""A compiled expression: computes its value on a frame (see `headgate.expressions.compiler`)."""

Branching = Callable[[Call, Sequence[Run]], Run]
"""Compiles a call from its compiled arguments, choosing which of them to compute on which rows."""


@dataclass(frozen=True)
class Function:
    """One function. `types` is None where no rule can give the type of a call (casts, Python functions).

    At most one of `kernel` and `branching` is set. If neither is, Catalyst computes the function, or its rule names
    another function that has one.
    """

    name: str
    types: Rule | None
    fails: bool | Fails = False
    kernel: Maker | None = None
    branching: Branching | None = None

    @property
    def native(self) -> bool:
        """Whether some calls are computed here; the rule decides which."""
        return self.kernel is not None or self.branching is not None


FUNCTIONS: dict[str, Function] = {}
"""Every function by canonical name."""

ALIASES: dict[str, str] = {}
"""Other names of the same functions."""

_NONE: Mapping[str, str] = {}


def function(
    *names: str, types: Rule | None, fails: bool | Fails = False, aliases: Mapping[str, str] = _NONE
) -> Callable[[Maker], Maker]:
    """Registers functions that share a rule and the decorated kernel maker. `aliases` maps alias to canonical name."""

    def register(maker: Maker) -> Maker:
        _register(names, aliases, lambda name: Function(name, types, fails, kernel=maker))
        return maker

    return register


def branching(
    *names: str, types: Rule, fails: bool | Fails = False, aliases: Mapping[str, str] = _NONE
) -> Callable[[Branching], Branching]:
    """As `function`, for functions that compute some arguments on some rows only."""

    def register(branching: Branching) -> Branching:
        _register(names, aliases, lambda name: Function(name, types, fails, branching=branching))
        return branching

    return register


def typed(*names: str, types: Rule, aliases: Mapping[str, str] = _NONE) -> None:
    """Registers functions without a kernel of their own: Catalyst computes them, or the rule names another function."""
    _register(names, aliases, lambda name: Function(name, types))


def _register(names: Sequence[str], aliases: Mapping[str, str], make: Callable[[str], Function]) -> None:
    for name in names:
        if name in FUNCTIONS:
            raise ValueError(f"the function {name} is registered twice")
        FUNCTIONS[name] = make(name)
    ALIASES.update(aliases)


def completed(signature: Signature, literals: tuple[object | None, ...]) -> Signature:
    """Completes a rule's signature: native only if the function has a kernel, and whether the call may fail."""
    native = signature.native and FUNCTIONS[signature.name].native
    return replace(
        signature, native=native, fallible=may_fail(signature.name, signature.args, signature.result, literals)
    )


def kernel_of(call: Call) -> Kernel:
    """The kernel of a call; ValueError for a function without one."""
    found = FUNCTIONS.get(call.name)
    if found is None or found.kernel is None:
        raise ValueError(f"the function {call.name} has no kernel; it must be computed by Spark at the source")
    return found.kernel(call)


def may_fail(name: str, args: tuple[Any, ...], result: Any, literals: tuple[object | None, ...] = ()) -> bool:
    """Whether a call may raise on some row (ANSI overflow, division by zero, a malformed cast …).

    `args` and `result` are types; `literals` holds the value of each argument that is a literal, None for the
    others. Without literals the worst is assumed.
    """
    found = FUNCTIONS.get(name)
    if found is None:
        return True
    if isinstance(found.fails, bool):
        return found.fails
    return found.fails(args, result, literals if len(literals) == len(args) else (None,) * len(args))


def fallible(expr: Expr) -> bool:
    """Whether evaluating it may raise on some row, so that it must not see rows that were filtered out.

    The answer is cached on the expression object.
    """
    found: bool | None = expr.__dict__.get("_fallible")
    if found is None:
        found = any(fallible(arg) for arg in expr.args) or (isinstance(expr, Call) and _call_may_fail(expr))
        expr.__dict__["_fallible"] = found
    return found


def _call_may_fail(call: Call) -> bool:
    types = tuple(a.type for a in call.args)
    return may_fail(call.name, types, call.type, tuple(a.value if isinstance(a, Literal) else None for a in call.args))

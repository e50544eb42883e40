"""Policies by name, with parameters in text: `chain`, `rr:quantum=10ms`, `cqc:inner=hnr,k=1000us`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, field, fields, is_dataclass
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.scheduling.errors import PolicyError, closest

if TYPE_CHECKING:
    from headgate.scheduling.policy import Policy

_POLICIES: dict[str, type[Policy]] = {}
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "": 1.0}
_NUMBER = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-zµ]*)$", re.IGNORECASE)

P = TypeVar("P", bound="type[Policy]")


def parameter(kind: str, default: Any, doc: str, choices: Sequence[str] = ()) -> Any:
    """A dataclass field that can be set from text.

    Kinds: `number`, `positive`, `fraction` (0 to 1), `rows`, `seconds`, `count`, `choice`, `policy`,
    `policies` (joined by +), `weights` (name*weight joined by +).
    """
    metadata = {"kind": kind, "doc": doc, "choices": tuple(choices)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def register(*aliases: str) -> Callable[[P], P]:
    """Class decorator: make a policy known under its `name` and the aliases."""

    def add(cls: P) -> P:
        for name in (cls.name, *aliases):
            _POLICIES[name] = cls
        return cls

    return add


def policies() -> Mapping[str, type[Policy]]:
    """All policies by name (aliases included)."""
    return dict(_POLICIES)


def parameters(name: str) -> Mapping[str, str]:
    """The parameters of a policy and their descriptions."""
    return {f.name: str(f.metadata["doc"]) for f in _fields(_class(name))}


def policy(text: str | Policy) -> Policy:
    """The policy named by a text; a policy is returned unchanged.

    >>> policy("chain:rows=1").name
    'chain'
    >>> policy("chian")
    Traceback (most recent call last):
    headgate.scheduling.errors.PolicyError: unknown policy 'chian'; did you mean 'chain'?
    """
    if not isinstance(text, str):
        return text
    # The parameters of an inner policy are in parentheses: cqc:inner=chain(rows=1).
    name, _, rest = text.strip().partition(":")
    if not rest and name.endswith(")"):
        name, _, rest = name[:-1].partition("(")
    cls = _class(name.strip().lower())
    known = {f.name: f for f in _fields(cls)}
    values: dict[str, Any] = {}
    for part in _split(rest, ",") if rest.strip() else ():
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals:
            raise PolicyError(f"policy '{text}': '{part.strip()}' is no parameter; write name=value")
        if key not in known:
            hint = closest(key, known) if known else "it has none"
            raise PolicyError(f"policy '{name}' has no parameter '{key}'; {hint}")
        values[key] = _read(name, known[key], value.strip())
    return cls(**values)


def described(policy: Policy) -> str:
    """A policy with all its parameters, those of inner policies too, and without what it has learned.

    >>> described(policy("cqc:inner=threshold"))
    'cqc(inner=threshold(rows=inf,quantum=inf,limit=64000000.0,low=0.5,interval=0.1),k=0.2)'
    """
    given: list[str] = [f.name for f in fields(policy) if f.init] if is_dataclass(policy) else []
    return f"{policy.name}({','.join(f'{name}={_spelled(getattr(policy, name))}' for name in given)})"


def _spelled(value: Any) -> str:
    """A value of a parameter."""
    from headgate.scheduling.policy import Policy

    if isinstance(value, tuple):
        return "+".join(_spelled(part) for part in value)
    return described(value) if isinstance(value, Policy) else repr(value)


def _class(name: str) -> type[Policy]:
    if name not in _POLICIES:
        raise PolicyError(f"unknown policy '{name}'; {closest(name, _POLICIES)}")
    return _POLICIES[name]


def _fields(cls: type[Policy]) -> list[Field[Any]]:
    return [f for f in fields(cls) if "kind" in f.metadata] if is_dataclass(cls) else []


def _split(text: str, separator: str) -> list[str]:
    """Split at a separator outside parentheses."""
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
        if char == separator and not depth:
            parts.append(text[start:position])
            start = position + 1
    if depth:
        raise PolicyError(f"policy parameters '{text}' have an unbalanced parenthesis; close what you open")
    return [*parts, text[start:]]


def _read(name: str, known: Field[Any], value: str) -> Any:
    kind = known.metadata["kind"]
    where = f"policy '{name}', parameter '{known.name}'"
    if kind == "policy":
        return policy(value)
    if kind == "policies":
        return tuple(policy(part) for part in _split(value, "+"))
    if kind == "weights":
        return _weights(where, value)
    if kind == "choice":
        if value not in known.metadata["choices"]:
            raise PolicyError(f"{where}: unknown value '{value}'; {closest(value, known.metadata['choices'])}")
        return value
    return _number(where, kind, value)


def _weights(where: str, value: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for part in value.split("+"):
        label, _, weight = part.partition("*")
        weights[label.strip()] = _number(where, "positive", weight.strip() or "1")
    return weights


def _number(where: str, kind: str, value: str) -> float:
    if value in ("inf", "all"):
        number, unit = inf, ""
    else:
        found = _NUMBER.match(value)
        if not found:
            raise PolicyError(f"{where}: '{value}' is no number; write for example 10 or 10ms")
        number, unit = float(found[1]), found[2].lower()
    if unit and (kind != "seconds" or unit not in _UNITS):
        wanted = "a time like 10ms, 1000us or 2s" if kind == "seconds" else "a plain number"
        raise PolicyError(f"{where}: '{value}' has unit '{unit}'; write {wanted}")
    if kind != "number" and kind != "fraction" and number <= 0:
        raise PolicyError(f"{where}: {value} is not above zero")
    if kind == "fraction" and not 0 <= number <= 1:
        raise PolicyError(f"{where}: {value} is not between 0 and 1")
    if kind == "count":
        if number != int(number):
            raise PolicyError(f"{where}: {value} is no whole number")
        return int(number)
    return number * _UNITS[unit]

"""The specs of queries and the objectives of the system, from their options in SQL or in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from headgate.graph.specs import OBJECTIVES, Objectives, Spec
from headgate.sql import statements as st
from headgate.sql.durations import BadDuration, duration
from headgate.sql.errors import Script, closest
from headgate.sql.options import unique

_SIZES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_SUM = 1e-6
"""How far the sum of weights may be from 1: 1/3 is written 0.333333."""


def declare_spec(options: tuple[st.Option, ...], script: Script, before: Spec | None = None) -> Spec:
    """A spec from the given options; the others keep their values of `before`."""
    unique(options, script)
    changed: dict[str, Any] = {}
    for option in options:
        read = _READ.get(option.key.text.lower())
        if read is None:
            hint = closest(option.key.text, _READ)
            raise script.error(f"a query has no option {option.key.text}{hint}", option.key.at)
        changed[option.key.text.lower()] = read(option, script)
    spec = replace(before or Spec(), **changed)
    if spec.tolerance is not None and spec.latency is None and spec.memory is None:
        place = next((o.key.at for o in options if o.key.text.lower() == "tolerance"), 0)
        raise script.error("tolerance belongs to latency or memory; write WITH (latency = '500 ms', …)", place)
    for name in ("utility", "scaled"):
        if getattr(spec, name) is not None and spec.accuracy is None:
            place = next((o.key.at for o in options if o.key.text.lower() == name), 0)
            raise script.error(f"{name} is about rows that are shed; write also accuracy = '90%'", place)
    return spec


def without(spec: Spec, names: Iterable[st.Name], script: Script) -> Spec:
    """A spec without some of its options, and without the options that depend on these (tolerance, utility, scaled)."""
    for name in names:
        if name.text.lower() not in _READ:
            raise script.error(f"a query has no option {name.text}{closest(name.text, _READ)}", name.at)
        spec = replace(spec, **{name.text.lower(): None})
    if spec.accuracy is None:
        spec = replace(spec, utility=None, scaled=None)
    return spec if spec.latency is not None or spec.memory is not None else replace(spec, tolerance=None)


def spec_of(given: Spec | Mapping[str, Any] | None, query: str, before: Spec | None = None) -> Spec:
    """A spec as it is given in Python: {"latency": "500 ms", "tolerance": 0.1}; None removes an option."""
    if isinstance(given, Spec):
        return given
    script = Script("", f"spec of {query}")
    gone = [st.Name(name, 0) for name, value in (given or {}).items() if value is None]
    kept = without(before or Spec(), gone, script)
    return declare_spec(_options({n: v for n, v in (given or {}).items() if v is not None}), script, kept)


def declare_objectives(options: tuple[st.Option, ...], script: Script, at: int) -> Objectives:
    """Weights of metrics that add up to 1 (002 §3.2). No options: the policy's own weights."""
    unique(options, script)
    weights: dict[str, float] = {}
    for option in options:
        name = option.key.text.lower()
        if name not in OBJECTIVES:
            raise script.error(f"unknown metric {option.key.text}{closest(option.key.text, OBJECTIVES)}", option.key.at)
        weights[name] = _share(option, script)
    total = sum(weights.values())
    if weights and abs(total - 1) > _SUM:
        raise script.error(f"the weights of the objectives add up to {total:g}; they must add up to 1", at)
    return weights


def objectives_of(given: Mapping[str, Any]) -> Objectives:
    """Objectives as they are given in Python: {"delay": 0.7, "output": 0.3}."""
    return declare_objectives(_options(given), Script("", "objectives"), 0)


def positive_duration(option: st.Option, script: Script) -> int:
    """A positive duration, written with its unit, in microseconds."""
    name = option.key.text.lower()
    if re.fullmatch(r"\s*[\d.]+\s*", option.value):
        raise script.error(
            f"{name} is {option.value}, which has no unit; write for example '{option.value} ms'", option.value_at
        )
    try:
        size = duration(option.value, short=True)
    except BadDuration as problem:
        raise script.error(str(problem), option.value_at) from None
    if size <= 0:
        raise script.error(f"{name} is {option.value}; it must be greater than 0", option.value_at)
    return size


def _share(option: st.Option, script: Script) -> float:
    text = option.value.strip()
    percent = text.endswith("%")
    try:
        value = Decimal(text.rstrip("%").strip()) / (100 if percent else 1)
    except InvalidOperation:
        value = Decimal(-1)
    if not 0 <= value <= 1:
        name = option.key.text.lower()
        raise script.error(f"{name} is {option.value}; write a share such as '10%' or 0.1", option.value_at)
    return float(value)


def _bytes(option: st.Option, script: Script) -> int:
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*([kmgt]?)(i?b)", option.value.strip(), re.IGNORECASE)
    size = int(Decimal(found[1]) * _SIZES[f"{found[2]}b".lower()]) if found is not None else 0
    if size <= 0:
        name = option.key.text.lower()
        raise script.error(f"{name} is {option.value}; write a number and a unit such as '64 MB'", option.value_at)
    return size


def _expression(option: st.Option, script: Script) -> str:
    """The text of an expression; the catalog binds it (`utilities`)."""
    if not option.value.strip():
        raise script.error("utility is empty; write an expression such as 'temperature'", option.value_at)
    return option.value.strip()


def _truth(option: st.Option, script: Script) -> bool:
    if option.value.strip().lower() not in ("true", "false"):
        raise script.error(f"{option.key.text.lower()} is {option.value}; write true or false", option.value_at)
    return option.value.strip().lower() == "true"


_READ: Mapping[str, Callable[[st.Option, Script], object]] = {
    "latency": positive_duration,
    "tolerance": _share,
    "memory": _bytes,
    "accuracy": _share,
    "utility": _expression,
    "scaled": _truth,
}
"""How the value of each option of a spec is read."""


def _options(given: Mapping[str, Any]) -> tuple[st.Option, ...]:
    return tuple(st.Option(st.Name(name, 0), _text(value), 0) for name, value in given.items())


def _text(value: object) -> str:
    """A value as it is written in SQL; of Python's types, a timedelta has a unit."""
    return f"{value.total_seconds():f} s" if isinstance(value, timedelta) else str(value)

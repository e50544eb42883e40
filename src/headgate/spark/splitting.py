"""By which keys a query can be split over replicas: the keys of its stateful operators, traced to columns of streams.

Operators declare the keys that can divide their state, and translate an expression over their output to their inputs
(`Operator.partition_keys`, `Operator.located`). A key of the topmost stateful operator that can be traced through every
operator below it divides them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from headgate.expressions.functions import fallible
from headgate.graph.expressions import Call, Column, Expr, Foreign
from headgate.graph.operators import Operator, Source
from headgate.graph.types import BOOLEAN, is_key
from headgate.spark.key_slots import ROWS
from headgate.spark.spark_conditions import COSTLY
from headgate.sql.foreign import NotSpark, spark_text

KeyPart = Mapping[str, Expr]
"""One part of a key: for each stream, the expression over its columns that has the part's value."""


@dataclass(frozen=True)
class Splitting:
    """How a query can be split.

    - `groups`: for streams that meet in stateful operators, the parts of the key that divides them: rows may be located
      by all parts, or by any of them
    - `free`: streams whose rows may go anywhere
    """

    groups: tuple[tuple[KeyPart, ...], ...]
    free: tuple[str, ...]


def splitting(plan: Operator) -> Splitting | None:
    """How a plan can be split; None if all its rows must come to one replica."""
    groups, others, free = _together(plan)
    if others:
        return None
    taken = {stream for group in groups for stream in group[0]}
    return Splitting(tuple(tuple(group) for group in groups), tuple(stream for stream in free if stream not in taken))


def separable(plan: Operator) -> list[Operator]:
    """The topmost stateful operators of a plan without which it could be split by the keys of the others."""
    groups, others, _ = _together(plan)
    return others if groups else []


def _together(plan: Operator) -> tuple[list[list[KeyPart]], list[Operator], dict[str, None]]:
    """The keys of the topmost stateful operators that can be split together, those that cannot be split with the ones
    before them, and the streams that no stateful operator reads."""
    tops: list[Operator] = []
    free: dict[str, None] = {}
    _topmost(plan, tops, free)
    groups: list[list[KeyPart]] = []
    others: list[Operator] = []
    for top in dict.fromkeys(tops):
        own = keys_of(top)
        shared = [group for group in groups if own and group[0].keys() & own[0].keys()]
        for group in shared:
            own = _joint(group, own)
        if not own:
            others.append(top)
            continue
        groups = [*(group for group in groups if group not in shared), own]
    return groups, others, free


def _topmost(node: Operator, tops: list[Operator], free: dict[str, None]) -> None:
    """Finds the stateful operators without another above them, and the streams that none of them reads."""
    if node.partition_keys is not None:
        tops.append(node)
    elif isinstance(node, Source):
        free[node.stream] = None
    for each in node.inputs if node.partition_keys is None else ():
        _topmost(each, tops, free)


def keys_of(node: Operator) -> list[KeyPart]:
    """The parts of a stateful operator's key that can be traced to all streams below it, each once."""
    found: list[KeyPart] = []
    for part in key_parts(node):
        if part is not None and part not in found:
            found.append(part)
    return found if any(expr.type != BOOLEAN for part in found for expr in part.values()) else []


def key_parts(node: Operator) -> list[KeyPart | None]:
    """Each of a stateful operator's keys as a part for all streams below it; None if it cannot be traced to them."""
    traces = (
        _merged([traced(each, expr) for each, expr in zip(node.inputs, exprs, strict=True)])
        for exprs in node.partition_keys or ()
    )
    return [part if part is not None and usable(part, node) else None for part in traces]


def traced(node: Operator, expr: Expr) -> KeyPart | None:
    """An expression over an operator's output as one over each stream below it: source rows with different values of it
    never meet, in this operator or below. None if there is none."""
    if isinstance(node, Source):
        return {node.stream: expr}
    located = node.located(expr)
    if located is None:
        return None
    return _merged([traced(each, inside) for each, inside in zip(node.inputs, located, strict=True)])


def _merged(parts: Iterable[KeyPart | None]) -> KeyPart | None:
    """One part for the streams of several; None if one is missing, or a stream would have two different keys."""
    found: dict[str, Expr] = {}
    for part in parts:
        if part is None or any(found.get(stream, expr) != expr for stream, expr in part.items()):
            return None
        found |= part
    return found


def _joint(first: Sequence[KeyPart], second: Sequence[KeyPart]) -> list[KeyPart]:
    """Key parts for the streams of two operators, where the streams that both read have one key."""
    pairs = [(a, b) for a, b in product(first, second) if any(a.get(stream) == b[stream] for stream in b)]
    found = [part for part in (_merged(pair) for pair in pairs) if part is not None]
    return [part for place, part in enumerate(found) if part not in found[:place]]


def usable(part: KeyPart, plan: Operator) -> bool:
    """Whether rows can be located by the expressions of a part, for every row of their streams: by Catalyst, or after
    an exchange by their receivers."""
    times = {node.stream: node.time for node in plan.walk() if isinstance(node, Source)}
    return len({expr.type for expr in part.values()}) == 1 and all(
        _computable(expr) if ROWS in stream else _writable(expr) and not _of_time(expr, times[stream])
        for stream, expr in part.items()
    )


def _computable(expr: Expr) -> bool:
    """Whether the receivers of rows may compute it: not if it could raise."""
    return bool(expr.columns) and is_key(expr.type) and not fallible(expr)


def _writable(expr: Expr) -> bool:
    """Whether Catalyst may compute it: not if it could raise, since it sees rows that the query drops, nor if it costs
    more than it saves."""
    if not expr.columns and not any(isinstance(part, Foreign) for part in expr.walk()):
        return False
    if not is_key(expr.type) or fallible(expr):
        return False
    if any(isinstance(part, Call) and part.name in COSTLY for part in expr.walk()):
        return False
    try:
        spark_text(expr.rewrite(lambda part: Column(part.type, 0) if isinstance(part, Foreign) else None), lambda _: "")
    except NotSpark:
        return False
    return True


def _of_time(expr: Expr, time: int | None) -> bool:
    """Whether it is computed from the event time alone: all rows of a moment would go to one replica."""
    return not isinstance(expr, Column) and time is not None and expr.columns == {time}

"""Divides the conditions of a join into equal keys, a bound of time, conditions of one side, and the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from headgate.graph.event_times import EventTimes, time_of, window_time
from headgate.graph.expressions import Call, Expr, Literal
from headgate.graph.operators import TimeBound
from headgate.graph.types import is_time
from headgate.sql.times import DAY, is_window, linear

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


@dataclass
class Conditions:
    """What a join's conditions say. Left keys are over the left side, right keys and times over the right side."""

    left_keys: list[Expr] = field(default_factory=list)
    right_keys: list[Expr] = field(default_factory=list)
    left_only: list[Expr] = field(default_factory=list)
    right_only: list[Expr] = field(default_factory=list)
    rest: list[Expr] = field(default_factory=list)
    bound: TimeBound | None = None


def divide(terms: Iterable[Expr], width: int, left: EventTimes, right: EventTimes) -> Conditions:
    """Divides terms over both sides' columns; the left side has `width` columns."""
    found = Conditions()
    bounds: dict[tuple[Expr, Expr], _Bound] = {}
    for term in _flat(terms):
        side = _side(term, width)
        if side == "left":
            found.left_only.append(term)
        elif side == "right":
            found.right_only.append(term.shifted(-width))
        elif not _between(term, width, left, right, found, bounds):
            found.rest.append(term)
    _choose(found, bounds)
    return found


def _flat(terms: Iterable[Expr]) -> Iterable[Expr]:
    for term in terms:
        if isinstance(term, Call) and term.name == "and":
            yield from _flat(term.args)
        else:
            yield term


def _side(expr: Expr, width: int) -> str:
    columns = expr.columns
    if not columns:
        return "both"
    if all(i < width for i in columns):
        return "left"
    if all(i >= width for i in columns):
        return "right"
    return "both"


@dataclass
class _Bound:
    """The bounds of right time - left time. `terms` are the conditions from which they follow."""

    low: int | None = None
    high: int | None = None
    exact: bool = True
    terms: list[Expr] = field(default_factory=list)

    def add(self, name: str, distance: int, term: Expr, exact: bool) -> None:
        """right - left `name` distance, for whole microseconds."""
        slack = 0 if exact else DAY
        if name in ("ge", "gt", "eq"):
            low = distance + (1 if name == "gt" else 0) - slack
            self.low = low if self.low is None else max(self.low, low)
        if name in ("le", "lt", "eq"):
            high = distance - (1 if name == "lt" else 0) + slack
            self.high = high if self.high is None else min(self.high, high)
        self.exact = self.exact and exact
        self.terms.append(term)


def _between(
    term: Expr,
    width: int,
    left: EventTimes,
    right: EventTimes,
    found: Conditions,
    bounds: dict[tuple[Expr, Expr], _Bound],
) -> bool:
    """Takes a comparison of one side with the other; False if the term is not one."""
    if not isinstance(term, Call) or term.name not in _MIRRORED:
        return False
    distance_term = _distance(term)
    name, (a, b) = (distance_term or term).name, (distance_term or term).args
    if _side(a, width) == "right" and _side(b, width) == "left":
        name, a, b = _MIRRORED[name], b, a
    if _side(a, width) != "left" or _side(b, width) != "right":
        return False
    b = b.shifted(-width)
    first, second = linear(a, left), linear(b, right)
    if first is not None and second is not None:
        # left + x <= right + y is right - left >= x - y.
        distance = first.shift - second.shift
        bound = bounds.setdefault((first.time, second.time), _Bound())
        bound.add(_MIRRORED[name], distance, term, first.exact and second.exact and distance_term is None)
        return True
    if name != "eq" or distance_term is not None:
        return False
    if is_window(a.type) and a.type == b.type:
        first_moment, second_moment = _moment(a, left), _moment(b, right)
        if first_moment is not None and second_moment is not None:
            bound = bounds.setdefault((first_moment[0], second_moment[0]), _Bound())
            bound.add("le", first_moment[1], term, True)
            bound.add("ge", -second_moment[1], term, True)
        for member in ("start", "end"):
            found.left_keys.append(_member(a, member))
            found.right_keys.append(_member(b, member))
        return True
    found.left_keys.append(a)
    found.right_keys.append(b)
    return True


def _distance(term: Call) -> Call | None:
    """`a - b < INTERVAL 5 MINUTES` as `a < b + INTERVAL 5 MINUTES`; None if the term is not one.

    The difference is between wall clocks, so it bounds the join, but does not replace the term.
    """
    name, (a, b) = term.name, term.args
    if isinstance(a, Literal):
        name, a, b = _MIRRORED[name], b, a
    if not (isinstance(b, Literal) and isinstance(b.value, timedelta) and isinstance(a, Call)):
        return None
    if a.name != "subtract" or not all(is_time(arg.type) for arg in a.args):
        return None
    first, second = a.args
    return Call(term.type, name, (first, Call(second.type, "add", (second, b))))


def _moment(window: Expr, known: EventTimes) -> tuple[Expr, int] | None:
    """An event time of a window, and by how many microseconds the window's last moment may be later."""
    time = time_of(window, known)
    if time is None:
        return None
    # A row's own time is what makes it late, not the end of the window that it is in.
    if isinstance(window, Call) and window.name == "window" and time.length is not None:
        return window.args[0], time.length - 1
    return window_time(window), 0


def _member(window: Expr, name: str) -> Expr:
    return Call(window.type.field(name).type, "field", (window,), name)


def _choose(found: Conditions, bounds: dict[tuple[Expr, Expr], _Bound]) -> None:
    """Takes the first pair of times bounded on both sides; terms that it does not express exactly stay conditions."""
    for (left, right), bound in bounds.items():
        closed = bound.low is not None and bound.high is not None
        if found.bound is None and closed:
            found.bound = TimeBound(left, right, bound.low, bound.high)
            if bound.exact:
                continue
        # Equal windows are keys already.
        found.rest += [term for term in bound.terms if not _windows(term)]


def _windows(term: Expr) -> bool:
    return isinstance(term, Call) and term.name == "eq" and is_window(term.args[0].type)

"""CQC: weighted round robin over classes, any policy inside a class (004 §4, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Any, ClassVar, Protocol

from headgate.graph.specs import Objectives
from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policies.highest_rate import HighestRate
from headgate.scheduling.policy import Grant, Policy, Selector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.topology import Topology, TopologyClass
from headgate.scheduling.view import View


def quotas(priorities: Sequence[float], period: float) -> list[float]:
    """Ideal time slices T_i = P_i·k/ΣP_j.

    >>> quotas([6, 3, 1], 20)
    [12.0, 6.0, 2.0]
    """
    total = sum(priorities)
    return [p * period / total for p in priorities]


def class_shares(topology: Topology, units: Units) -> list[dict[int, float]]:
    """Per unit: the share of its cost charged to each class, by the number of the class's queries that use the unit."""
    rank = {cls: number for number, cls in enumerate(topology.classes)}
    shares: list[dict[int, float]] = []
    for unit in units.units:
        served = {q for o in unit.operators for q in topology.serves[o]}
        share: dict[int, float] = {}
        for q in served:
            cls = rank[topology.queries[q].cls]
            share[cls] = share.get(cls, 0.0) + 1 / len(served)
        shares.append(share or {unit.cls: 1.0})
    return shares


def crossing_edges(topology: Topology) -> frozenset[int]:
    """The edges between operators of different classes."""
    cls = topology.operator_class
    return frozenset(e.id for e in topology.edges if e.producer is not None and cls[e.producer] != cls[e.consumer])


_grant = tuple.__new__
"""Creates a grant twice as fast as calling the class; every decision creates one."""


class Turn:
    """A class in the round: the rest of its quota (`credit`; a debt below zero) and the number of its `ready` units.

    `shared` is the time charged to it since its last turn for units that other classes ran.
    """

    __slots__ = ("credit", "inner", "ready", "shared", "slice")

    def __init__(self, slice: float, inner: Selector) -> None:
        self.slice = self.credit = slice
        self.inner = inner
        self.ready = 0
        self.shared = 0.0


class Member:
    """A unit in its class: the share of its cost that this class pays (`own`), and the shares of other classes.

    `lent` is the credit taken for the running grant until its real cost is known.
    """

    __slots__ = ("entries", "lent", "others", "own", "turn", "waiting")

    def __init__(self, entries: Sequence[int], turn: Turn, others: Sequence[tuple[Turn, float]]) -> None:
        self.entries = entries
        self.turn = turn
        self.others = others
        self.own = 1 - sum(share for _, share in others)
        self.lent = 0.0
        self.waiting = False


class ClassPolicy(Protocol):
    """A policy that divides the time among classes."""

    @property
    def k(self) -> float:
        """The period that the classes share."""
        ...

    def inner_of(self, cls: str) -> Policy:
        """The policy inside a class."""
        ...

    def share_of(self, cls: TopologyClass) -> float:
        """The weight of a class: by default its priority."""
        ...


class ClassSelector(Selector):
    """Level 1 of CQC. A class runs until its quota is used up or it has no ready unit.

    Overrun is deducted from its next quota; unused quota is lost (Algorithm 1, steps 2 and 3). A unit
    that several classes use runs in the highest of them, and each is charged its share, up to half its slice
    a round; the class that runs it bears the rest.

    On one processor, while all classes have work and share no operator, a class of share s and quota T receives s·t of
    any time t, with a deviation of at most T(1 − s), the rest of a round, plus one grant; over whole rounds it receives
    its quotas, with a deviation of at most one grant (`tests/scheduling/test_classes.py` checks the bounds).
    """

    def __init__(self, view: View, units: Units, members: Sequence[int] | None, policy: ClassPolicy) -> None:
        chosen = range(len(units)) if members is None else members
        topology = view.topology
        self._rows = view.queues.rows
        classes = topology.classes
        present = sorted({units[u].cls for u in chosen})
        slices = quotas([policy.share_of(classes[cls]) for cls in present], policy.k)
        self.turns = [
            Turn(
                slice,
                policy.inner_of(classes[cls].name).selector(view, units, [u for u in chosen if units[u].cls == cls]),
            )
            for cls, slice in zip(present, slices, strict=True)
        ]
        self.watches_growth = any(turn.inner.watches_growth for turn in self.turns)
        of = dict(zip(present, self.turns, strict=True))
        self._places = {cls: place for place, cls in enumerate(present)}
        absent = Member((), Turn(0.0, self), ())
        self._members = [absent] * len(units)
        shares = class_shares(topology, units)
        for u in chosen:
            unit = units[u]
            # The shares of classes without a unit here fall to the unit's own class.
            others = [(of[c], share) for c, share in shares[u].items() if c in of and c != unit.cls]
            self._members[u] = Member(unit.entries, of[unit.cls], others)
            self._wait(self._members[u])
        self._current = 0
        self._interrupted: int | None = None

    def _wait(self, member: Member) -> None:
        rows = self._rows
        for e in member.entries:
            if rows[e] > 0:
                member.waiting = True
                member.turn.ready += 1
                return

    def arrived(self, unit: int) -> None:
        member = self._members[unit]
        turn = member.turn
        if not member.waiting:
            member.waiting = True
            turn.ready += 1
        turn.inner.arrived(unit)

    def prefer(self, cls: int) -> None:
        """The class uses its quota early. The class whose turn it is goes on with the rest of its own afterwards."""
        place = self._places.get(cls)
        if place is not None and place != self._current and self.turns[place].ready and self.turns[place].credit > 0:
            if self._interrupted is None:
                self._interrupted = self._current
            self._current = place

    def changed(self, unit: int) -> None:
        self._members[unit].turn.inner.changed(unit)

    def next(self, now: float) -> Grant | None:
        if not self.turns:
            return None
        turn = self.turns[self._current]
        if not turn.ready and not any(other.ready for other in self.turns):
            return None
        idle = 0
        while idle <= len(self.turns):
            if turn.credit > 0:
                grant = turn.inner.next(now) if turn.ready else None
                if grant is not None:
                    unit, rows, limit = grant
                    member = self._members[unit]
                    if member.waiting:
                        member.waiting = False
                        turn.ready -= 1
                    # At most the rest of its quota, deducted until `finished` knows the real cost, so that a second
                    # processor sees it as used.
                    lent, credit = limit * member.own, turn.credit
                    if credit < lent:
                        lent, limit = credit, credit / member.own
                    member.lent = lent
                    turn.credit = credit - lent
                    return _grant(Grant, (unit, rows, limit))
            if self._interrupted is not None:
                # Its own turn is still to come.
                self._current, self._interrupted = self._interrupted, None
                turn = self.turns[self._current]
                continue
            if turn.credit > 0:
                # Nothing to do: the rest of its quota is lost.
                turn.credit = turn.slice
                idle += 1
            else:
                # "Deducts the excess amount from its future quotas" (§4.2). Paying takes no time (step 2a): a class
                # with work pays until its credit is positive.
                turn.credit += turn.slice
                idle = 0 if turn.ready else idle + 1
            turn.shared = 0.0
            self._current = (self._current + 1) % len(self.turns)
            if not self._current:
                self._skip_paying_rounds()
            turn = self.turns[self._current]
        return None

    def _skip_paying_rounds(self) -> None:
        """At the beginning of a round: skips the rounds in which every class with work only pays its debt."""
        ready = [turn for turn in self.turns if turn.ready]
        if not ready or any(turn.credit > 0 for turn in ready):
            return
        rounds = min(floor(-turn.credit / turn.slice) for turn in ready)
        for turn in self.turns:
            if turn.credit <= 0:
                turn.credit += turn.slice * min(rounds, floor(-turn.credit / turn.slice))

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        member = self._members[unit]
        turn = member.turn
        turn.credit -= elapsed * member.own - member.lent
        for other, share in member.others:
            # Units run by other classes take at most half of a class's time, or sharing would starve it.
            charged = min(elapsed * share, other.slice / 2 - other.shared)
            other.shared += charged
            other.credit -= charged
            turn.credit -= elapsed * share - charged
        if not member.waiting:
            self._wait(member)
        turn.inner.finished(unit, now, elapsed, rows_in, rows_out)

    def refresh(self, view: View, now: float) -> None:
        for turn in self.turns:
            turn.inner.refresh(view, now)


@register()
@dataclass
class Cqc(Policy):
    """Every class gets its share of each period `k`; inside a class the `inner` policy decides.

    The paper's period is 1 ms, for operators that take a row at a time. A vectorized operator costs about a millisecond
    per call, however few rows it takes, so a slice must be much longer than that: with 10 ms the 21 queries of
    `headgate bench classes-21` took more than one core, with 200 ms they take a tenth of one.
    """

    name: ClassVar[str] = "cqc"
    inner: Policy = parameter("policy", HighestRate, "the policy inside a class")  # noqa: RUF009 - a factory
    k: float = parameter("seconds", 0.2, "the period that the classes share")

    def __post_init__(self) -> None:
        self.interval = self.inner.refresh_every

    @property
    def generation(self) -> int:
        return self.inner.generation

    def cut(self, view: View) -> Cut:
        """The inner policy's cut, and a queue wherever the class changes: a unit is of one class."""
        cut = self.inner.cut(view)
        cls = view.topology.operator_class
        crossing = crossing_edges(view.topology)
        edges = view.topology.edges
        together = frozenset(group for group in cut.together if len({cls[edges[e].consumer] for e in group}) == 1)
        return replace(cut, queued=cut.queued | crossing, together=together)

    def inner_of(self, cls: str) -> Policy:
        return self.inner

    def share_of(self, cls: TopologyClass) -> float:
        return cls.priority

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return ClassSelector(view, units, members, self)

    def refresh(self, view: View, now: float) -> bool:
        return self.inner.refresh(view, now)

    def pursue(self, objectives: Objectives) -> None:
        self.inner.pursue(objectives)

    def decisions(self) -> Sequence[Mapping[str, Any]]:
        return self.inner.decisions()

    def state(self) -> dict[str, Any]:
        return self.inner.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.inner.restore(state)

"""CQC: weighted round robin over classes, any policy inside a class (004 §4, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import ClassVar

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policies.highest_rate import HighestRate
from headgate.scheduling.policy import Grant, Policy, Selector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.topology import Topology
from headgate.scheduling.view import View


def quotas(priorities: Sequence[float], period: float) -> list[float]:
    """Ideal time slices T_i = P_i·k/ΣP_j.

    >>> quotas([6, 3, 1], 20)
    [12.0, 6.0, 2.0]
    """
    total = sum(priorities)
    return [p * period / total for p in priorities]


def uses(topology: Topology, units: Units) -> list[dict[int, float]]:
    """Per unit: the share of its cost that each class is charged, by how many of its queries use the unit."""
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


_grant = tuple.__new__
"""Makes a grant in half the time that the class itself takes: there is one a decision."""


class ClassSelector(Selector):
    """Level 1 of CQC. A class runs until its quota is used or it has nothing to do.

    What it ran over is taken off its next quota; what it left is lost (Algorithm 1, steps 2 and 3). A unit
    that several classes use runs in the highest of them, and each is charged its share, up to half its slice
    a round; the class that runs it bears the rest.

    So on one processor, while all classes have work and share nothing, a class of share s and quota T has had s·t of
    any time t, but for what is left of a round, T(1 − s), and one grant; from round to round, its quotas within
    one grant (`tests/scheduling/test_classes.py` has the bounds).
    """

    def __init__(self, view: View, units: Units, members: Sequence[int] | None, policy: Cqc) -> None:
        chosen = range(len(units)) if members is None else members
        topology = view.topology
        self._rows = view.queues.rows
        self._entries = [unit.entries for unit in units.units]
        present = sorted({units[u].cls for u in chosen})
        place = {cls: number for number, cls in enumerate(present)}
        self._class_of = [place.get(unit.cls, -1) for unit in units.units]
        # Per unit: the share that its own class pays (and that of classes with no unit here), and the others'.
        self._others: list[list[tuple[int, float]]] = []
        self._own: list[float] = []
        for found, use in zip(units.units, uses(topology, units), strict=True):
            others = [(place[c], share) for c, share in use.items() if c in place and c != found.cls]
            self._others.append(others)
            self._own.append(1 - sum(share for _, share in others))
        self.slices = quotas([topology.classes[cls].priority for cls in present], policy.k)
        self.credit = list(self.slices)
        self._inner = [
            policy.inner.selector(view, units, [u for u in chosen if self._class_of[u] == number])
            for number in range(len(present))
        ]
        self.watches_growth = any(inner.watches_growth for inner in self._inner)
        self._ready: list[set[int]] = [set() for _ in present]
        # Per unit: the ready ones of its class, and who selects among them.
        self._home = [(self._ready[c], self._inner[c]) for c in self._class_of]
        self._current = 0
        self._used: float | None = None
        self._lent = [0.0] * len(units)
        # What each class was charged for shared units since its last turn.
        self._shared = [0.0] * len(present)
        for unit in chosen:
            if any(self._rows[e] > 0 for e in self._entries[unit]):
                self._ready[self._class_of[unit]].add(unit)

    def arrived(self, unit: int) -> None:
        ready, inner = self._home[unit]
        ready.add(unit)
        inner.arrived(unit)

    def changed(self, unit: int) -> None:
        self._home[unit][1].changed(unit)

    def next(self, now: float) -> Grant | None:
        ready, used = self._ready, self._used
        if used is not None and ready[self._current]:
            # Most of the time: a class goes on with its quota.
            left = self.credit[self._current] - used
            grant = self._inner[self._current].next(now) if left > 0 else None
            if grant is not None:
                return self._lend(grant, left)
        if not any(ready):
            return None
        idle = 0
        while idle <= len(ready):
            cls = self._current
            used, credit = self._used, self.credit[cls]
            if used is None:
                if credit > 0 and not ready[cls]:
                    # Nothing to do: its quota is lost.
                    self.credit[cls] = self.slices[cls]
                    idle += 1
                    self._shared[cls] = 0.0
                    self._current = cls + 1 if cls + 1 < len(ready) else 0
                    continue
                if credit <= 0:
                    # Paying a debt takes no time (step 2a): a class with work pays until it may run.
                    self.credit[cls] += self.slices[cls]
                    idle = 0 if ready[cls] else idle + 1
                    self._advance()
                    self._forgive()
                    continue
                used = self._used = 0.0
            left = credit - used
            grant = self._inner[cls].next(now) if left > 0 and ready[cls] else None
            if grant is not None:
                return self._lend(grant, left)
            idle += left > 0
            self._leave(cls)
        return None

    def _lend(self, grant: Grant, left: float) -> Grant:
        """The grant of the class whose turn it is, for at most what is left of its quota."""
        unit, rows, limit = grant
        self._ready[self._current].discard(unit)
        own = self._own[unit]
        lent = limit * own
        if left < lent:
            lent, limit = left, left / own
        # Lent until `finished` knows better, so that a second processor sees a used quota.
        self._lent[unit] = lent
        self._used = (self._used or 0.0) + lent
        return _grant(Grant, (unit, rows, limit))

    def _leave(self, cls: int) -> None:
        used = self._used or 0.0
        if used <= self.credit[cls]:
            self.credit[cls] = self.slices[cls]
        else:
            # "Deducts the excess amount from its future quotas" (§4.2): the excess over the quota it had.
            self.credit[cls] = self.slices[cls] - (used - self.credit[cls])
        self._advance()

    def _advance(self) -> None:
        self._used = None
        self._shared[self._current] = 0.0
        self._current = (self._current + 1) % len(self.slices)

    def _forgive(self) -> None:
        """Skip the rounds in which every class with work only pays its debt."""
        ready = [c for c, units in enumerate(self._ready) if units]
        if self._current or not ready or any(self.credit[c] > 0 for c in ready):
            return
        rounds = min(floor(-self.credit[c] / self.slices[c]) for c in ready)
        for c, slice_ in enumerate(self.slices):
            if self.credit[c] <= 0:
                self.credit[c] += slice_ * min(rounds, floor(-self.credit[c] / slice_))

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        own = self._class_of[unit]
        owed = elapsed * self._own[unit] - self._lent[unit]
        if own == self._current and self._used is not None:
            self._used += owed
        else:
            self.credit[own] -= owed
        for cls, share in self._others[unit]:
            # What others run for a class takes at most half its time, or sharing would starve it.
            charged = min(elapsed * share, self.slices[cls] / 2 - self._shared[cls])
            self._shared[cls] += charged
            self._charge(cls, charged)
            self._charge(own, elapsed * share - charged)
        rows = self._rows
        ready, inner = self._home[unit]
        for e in self._entries[unit]:
            if rows[e] > 0:
                ready.add(unit)
                break
        inner.finished(unit, now, elapsed, rows_in, rows_out)

    def _charge(self, cls: int, seconds: float) -> None:
        if cls == self._current and self._used is not None:
            self._used += seconds
        else:
            self.credit[cls] -= seconds

    def refresh(self, view: View, now: float) -> None:
        for inner in self._inner:
            inner.refresh(view, now)


@register()
@dataclass
class Cqc(Policy):
    """Every class gets its share of each period `k`; inside a class the `inner` policy decides.

    The paper's period is 1 ms, for operators that take a row at a time. A vectorized operator costs about a millisecond
    a call however few rows it takes, so a slice must be long beside that: with 10 ms the 21 queries of
    `headgate bench classes-21` took more than one core, with 200 ms they take a tenth of one.
    """

    name: ClassVar[str] = "cqc"
    inner: Policy = parameter("policy", HighestRate, "the policy inside a class")  # noqa: RUF009 - a factory
    k: float = parameter("seconds", 0.2, "the period that the classes share")

    def __post_init__(self) -> None:
        self.interval = self.inner.interval

    @property
    def generation(self) -> int:
        return self.inner.generation

    def cut(self, view: View) -> Cut:
        """The inner policy's cut, and a queue wherever the class changes: a unit is of one class."""
        cut = self.inner.cut(view)
        cls = view.topology.operator_class
        crossing = {
            edge.id
            for edge in view.topology.edges
            if edge.producer is not None and cls[edge.producer] != cls[edge.consumer]
        }
        edges = view.topology.edges
        together = frozenset(group for group in cut.together if len({cls[edges[e].consumer] for e in group}) == 1)
        return replace(cut, queued=cut.queued | crossing, together=together)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return ClassSelector(view, units, members, self)

    def refresh(self, view: View, now: float) -> bool:
        return self.inner.refresh(view, now)

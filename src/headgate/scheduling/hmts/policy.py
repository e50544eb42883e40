"""Hybrid multi-threaded scheduling and its special cases: DI, GTS and OTS (000 §4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

from headgate.graph.specs import Objectives
from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.hmts.placement import Load, capacities, loads, place_queues
from headgate.scheduling.hmts.threads import ThreadSelector, latencies
from headgate.scheduling.policies.fifo import Fifo
from headgate.scheduling.policy import Policy, Selector
from headgate.scheduling.ranked import RankSelector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.view import View


def balance(view: View, units: Units, threads: int) -> list[list[int]]:
    """Units in `threads` partitions of about equal work, the heaviest first to the least loaded.

    Units of one component share operators, so they stay in one partition.
    """
    given = loads(view)
    work: dict[int, float] = {}
    members: dict[int, list[int]] = {}
    for unit in units.units:
        members.setdefault(unit.component, []).append(unit.id)
    for operator, component in enumerate(units.component_of):
        load = given[operator]
        work[component] = work.get(component, 0.0) + (load.c / load.d if load.d < inf else 0.0)
    bins: list[list[int]] = [[] for _ in range(min(threads, len(members)))]
    filled = [0.0] * len(bins)
    for component in sorted(members, key=lambda c: (-work[c], c)):
        least = min(range(len(bins)), key=lambda b: (filled[b], len(bins[b]), b))
        bins[least] += members[component]
        filled[least] += work[component]
    return bins


@register()
@dataclass
class Hmts(Policy):
    """Three levels: units, partitions of units, each under its own policy, and threads by priority with aging.

    First level: units by `placement`; second: `threads` partitions (by default one per unit), each under its own copy
    of an `inner` policy; third: threads by the priority of their highest class and the specs of their queries, with
    aging, for a `slice` of time each.

    `placement=stall` is Algorithm 1 from the measured c(v) and d(v), repeated every `interval`, but changed
    only if a unit's capacity has fallen below −`hysteresis`·d, or if queues can be saved with that margin.
    """

    name: ClassVar[str] = "hmts"
    inner: tuple[Policy, ...] = parameter(
        "policies", lambda: (Fifo(),), "the policies of the partitions in turn, joined by +"
    )
    threads: float = parameter("count", inf, "partitions (default: one per unit)")
    placement: str = parameter("choice", "stall", "where queues are placed", ("stall", "every", "sources", "inner"))
    aging: float = parameter("positive", 1.0, "priority gained per second of waiting")
    slice: float = parameter("seconds", 0.01, "time after which a thread yields to one ahead of it")
    hysteresis: float = parameter("fraction", 0.2, "drift of capacity that moves queues")
    interval: float = parameter("seconds", 5.0, "time between two placements")
    _cut: Cut | None = field(default=None, init=False, repr=False)
    _placed_in: int = field(default=0, init=False, repr=False)

    def cut(self, view: View) -> Cut:
        if self.placement == "every":
            return Cut.every(view.topology)
        if self.placement == "sources":
            return Cut.sources(view.topology)
        if self.placement == "inner":
            return self.inner[0].cut(view)
        # Edges are renumbered when queries are added or removed: a placement is valid only for its own graph.
        graph = hash((view.topology.operators, view.topology.edges))
        if self._cut is None or self._placed_in != graph:
            self._cut = place_queues(view.topology, loads(view))
            self._placed_in = graph
        return self._cut

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        partitions = self.partitions(view, units)
        if members is not None:
            chosen = set(members)
            partitions = [kept for part in partitions if (kept := [u for u in part if u in chosen])]
        classes = view.topology.classes
        return ThreadSelector(
            view,
            units,
            [
                (part, self.policy_of(number), max(classes[units[u].cls].priority for u in part))
                for number, part in enumerate(partitions)
            ],
            self.aging,
            self.slice,
            latencies(view.topology, units),
        )

    def policy_of(self, thread: int) -> Policy:
        """A copy of the policy for the thread: one that learns must not learn from other threads."""
        return deepcopy(self.inner[thread % len(self.inner)])

    def partitions(self, view: View, units: Units) -> list[list[int]]:
        """The units of each thread."""
        return balance(view, units, int(min(self.threads, max(len(units), 1))))

    def refresh(self, view: View, now: float) -> bool:
        changed = self.placement == "inner" and self.inner[0].refresh(view, now)
        if self.placement != "stall":
            return changed
        given = loads(view)
        if self._cut is not None and not self._worth_moving(view, self._cut, given):
            return False
        self._cut = place_queues(view.topology, given)
        return True

    def pursue(self, objectives: Objectives) -> None:
        for policy in self.inner:
            policy.pursue(objectives)

    def decisions(self) -> Sequence[Mapping[str, Any]]:
        return [each for policy in self.inner for each in policy.decisions()]

    def state(self) -> dict[str, Any]:
        """That of the inner policies; queues are placed again from the measurements."""
        return {"inner": [policy.state() for policy in self.inner]}

    def restore(self, state: Mapping[str, Any]) -> None:
        for policy, known in zip(self.inner, state["inner"], strict=True):
            policy.restore(known)

    def _worth_moving(self, view: View, cut: Cut, given: Sequence[Load]) -> bool:
        topology = view.topology
        best = place_queues(topology, given)
        if best == cut:
            return False
        now, then = capacities(topology, cut, given), capacities(topology, best, given)
        # A stall that another placement would reduce by more than the noise of the measurements.
        stalled = -sum(min(c, 0.0) for c in now)
        remaining = -sum(min(c, 0.0) for c in then)
        if stalled - remaining > self.hysteresis * stalled and stalled > 0:
            return True
        roomy = place_queues(topology, given, margin=self.hysteresis)
        return len(roomy.queued) < len(cut.queued)


@register()
@dataclass
class GraphThreaded(Hmts):
    """GTS: one thread for the whole graph, with the inner policy's own cut (000 §4.1.1)."""

    name: ClassVar[str] = "gts"
    threads: float = parameter("count", 1, "partitions")
    placement: str = parameter("choice", "inner", "where queues are placed", ("inner", "every"))


@register()
@dataclass
class OperatorThreaded(Hmts):
    """OTS: every operator has its queue and its thread (000 §4.1.2)."""

    name: ClassVar[str] = "ots"
    placement: str = parameter("choice", "every", "where queues are placed", ("every",))


@register("direct")
@dataclass
class DirectInteroperability(Policy):
    """DI: an element is processed through the whole graph as it arrives (000 §2.4).

    `sources=direct`: in the source's own thread, with no queue at all; `sources=queued`: one queue after
    each source, and one thread (000 §6.4).
    """

    name: ClassVar[str] = "di"
    sources: str = parameter("choice", "direct", "whether sources have a queue", ("direct", "queued"))
    interval: float = inf

    def cut(self, view: View) -> Cut:
        return Cut.direct() if self.sources == "direct" else Cut.sources(view.topology)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return RankSelector(view, units, members, lambda _, found: [0.0] * len(found))

"""The policy `auto`: classes share the time as in CQC, and AMoS selects the policy inside each class (002, 004)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, ClassVar

from headgate.graph.specs import Objectives
from headgate.scheduling.amos.controlled import Situation
from headgate.scheduling.amos.policy import Amos, SelectionParameters
from headgate.scheduling.cqc import ClassSelector, crossing_edges
from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.errors import PolicyError
from headgate.scheduling.policies.chain import Chain
from headgate.scheduling.policies.fifo import Fifo
from headgate.scheduling.policies.highest_rate import HighestRate
from headgate.scheduling.policies.most_tuples import MostTuples
from headgate.scheduling.policy import Policy, Selector
from headgate.scheduling.registry import described, parameter, register
from headgate.scheduling.topology import Topology, TopologyClass
from headgate.scheduling.view import Performance, View


class ClassAmos(Amos):
    """AMoS over the units of one class, judged by the results and queues of that class alone.

    Levels of queues are sampled when an interval ends: their integrals are computed from the mean of two samples.
    """

    def __init__(self, cls: str, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._cls = cls
        self._total = Performance()
        self._levels = (0.0, 0.0, 0.0, 0.0)
        self._resumed = False

    @property
    def subject(self) -> str:
        return self._cls

    def refresh(self, view: View, now: float) -> bool:
        if self._resumed:
            # What came since it was saved is not the result of its candidate.
            self._resumed = False
            self._before, self._since = self.measure(view, now), now
            self._found = self.situation(view, self._before)
        return super().refresh(view, now)

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._resumed = True

    def measure(self, view: View, now: float) -> Performance:
        topology, queues = view.topology, view.queues
        edges = _edges(topology, self._cls)
        delivered = view.delivered()
        own = [each for each, query in zip(delivered, topology.queries, strict=False) if query.cls.name == self._cls]
        before = self._levels
        levels = self._levels = (
            sum(results for results, _ in own),
            sum(delay for _, delay in own),
            sum(queues.rows[e] for e in edges),
            sum(queues.bytes[e] for e in edges),
        )
        elapsed = now - self._since
        total = self._total
        # Totals fall when a query is dropped: such an interval counts as one without results.
        total.results += max(0.0, levels[0] - before[0])
        total.delay += max(0.0, levels[1] - before[1])
        total.queued_rows += elapsed * (levels[2] + before[2]) / 2
        total.queued_bytes += elapsed * (levels[3] + before[3]) / 2
        total.staleness += elapsed * max(0.0, now - min((queues.oldest[e] for e in edges), default=now))
        return total.copy()

    def situation(self, view: View, performance: Performance) -> Situation:
        return Situation.of_edges(view, _edges(view.topology, self._cls), performance.results)


def _edges(topology: Topology, cls: str) -> list[int]:
    """The edges into operators of a class."""
    number = next((n for n, known in enumerate(topology.classes) if known.name == cls), -1)
    return [edge.id for edge in topology.edges if topology.operator_class[edge.consumer] == number]


CUTS = ("policy", "sources", "every")


def _learning(policy: Auto) -> str:
    """The policy without the parameters that do not affect what is learned."""
    return described(replace(policy, k=1.0, shares={}, cuts=CUTS[0]))


def _apart_from_candidates(policy: Auto) -> str:
    """`_learning` without the candidates."""
    return _learning(replace(policy, policies=(HighestRate(),)))


def _candidates() -> tuple[Policy, ...]:
    return (HighestRate(), Fifo(), Chain(), MostTuples())


@register()
@dataclass
class Auto(SelectionParameters, Policy):
    """Classes share each period `k` as in CQC; inside each class, AMoS selects among `policies` every `interval`.

    With `Engine(policy="auto")` the run-time optimizer (`headgate.control`) changes its parameters as well.
    """

    name: ClassVar[str] = "auto"
    policies: tuple[Policy, ...] = parameter("policies", _candidates, "the candidates, joined by +")
    k: float = parameter("seconds", 0.2, "the period that the classes share")
    shares: Mapping[str, float] = parameter("weights", dict, "factors of classes' shares, as in critical*2+report*0.5")
    cuts: str = parameter("choice", "policy", "the cut: of the candidates, at the sources, or every edge", CUTS)
    _classes: dict[str, ClassAmos] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.policies:
            raise PolicyError("policy 'auto' needs at least one candidate")
        self._objectives: Objectives = {}
        # What was learned about other candidates, by these and by class.
        self._others: dict[str, dict[str, Any]] = {}

    @property
    def generation(self) -> int:
        return sum(amos.generation for amos in self._classes.values())

    def share_of(self, cls: TopologyClass) -> float:
        return cls.priority * self.shares.get(cls.name, 1.0)

    def continues(self, before: Policy) -> None:
        """Keeps what the classes have learned if only shares, period or cut differ. What was learned about other
        candidates is kept until these run again: the run-time optimizer fixes a class to one of them for a while."""
        if not isinstance(before, Auto) or _apart_from_candidates(before) != _apart_from_candidates(self):
            return
        earlier, present = _learning(before), _learning(self)
        if earlier == present:
            self._classes, self._others = before._classes, before._others
            return
        self._others = {**before._others, earlier: {cls: amos.state() for cls, amos in before._classes.items()}}
        for cls, known in self._others.pop(present, {}).items():
            self.inner_of(cls).restore(known)

    def inner_of(self, cls: str) -> ClassAmos:
        """The selection of a class; it starts with the first candidate."""
        if cls not in self._classes:
            # Candidates may learn, so each class has its own.
            made = ClassAmos(
                cls,
                policies=deepcopy(self.policies),
                weights=self.weights,
                learner=self.learner,
                decay=self.decay,
                interval=self.interval,
                seed=self.seed + len(self._classes),
            )
            made.pursue(self._objectives)
            self._classes[cls] = made
        return self._classes[cls]

    def cut(self, view: View) -> Cut:
        """In each class the cut of its candidate, and a queue wherever the class changes: a unit is of one class."""
        topology = view.topology
        crossing = crossing_edges(topology)
        if self.cuts != "policy":
            made = Cut.sources(topology) if self.cuts == "sources" else Cut.every(topology)
            return replace(made, queued=made.queued | crossing)
        number = topology.operator_class
        cuts = [self.inner_of(cls.name).cut(view) for cls in topology.classes]
        edges = topology.edges
        queued = frozenset(edge.id for edge in edges if edge.id in cuts[number[edge.consumer]].queued)
        together = frozenset(
            group
            for cls, cut in enumerate(cuts)
            for group in cut.together
            if {number[edges[e].consumer] for e in group} == {cls}
        )
        order = tuple(e for cls, cut in enumerate(cuts) for e in cut.order if number[edges[e].consumer] == cls)
        return Cut(queued | crossing, together, any(cut.per_entry for cut in cuts), order)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return ClassSelector(view, units, members, self)

    def refresh(self, view: View, now: float) -> bool:
        changed = [self.inner_of(cls.name).refresh(view, now) for cls in view.topology.classes]
        return any(changed)

    def pursue(self, objectives: Objectives) -> None:
        self._objectives = dict(objectives)
        for amos in self._classes.values():
            amos.pursue(objectives)

    def decisions(self) -> Sequence[Mapping[str, Any]]:
        found = [{**each, "of": amos.subject} for amos in self._classes.values() for each in amos.decisions()]
        return sorted(found, key=itemgetter("at"))

    def current(self) -> dict[str, str]:
        """The running candidate of each class."""
        return {cls: amos.current.name for cls, amos in self._classes.items()}

    def state(self) -> dict[str, Any]:
        return {"classes": {cls: amos.state() for cls, amos in self._classes.items()}, "others": dict(self._others)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._others = dict(state.get("others", {}))
        for cls, known in state["classes"].items():
            self.inner_of(cls).restore(known)

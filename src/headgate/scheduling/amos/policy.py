"""The AMoS policy: runs one candidate at a time and selects the next by the results of each (002 §3)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, ClassVar

import numpy as np

from headgate.graph.specs import Objectives
from headgate.scheduling.amos.choice import LEARNERS, learner
from headgate.scheduling.amos.controlled import Situation
from headgate.scheduling.amos.learners import Learner
from headgate.scheduling.amos.scoring import OBJECTIVES, ObjectiveWeights, Scores
from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.decisions import DecisionLog
from headgate.scheduling.errors import PolicyError
from headgate.scheduling.policies.chain import Chain
from headgate.scheduling.policies.fifo import Fifo
from headgate.scheduling.policies.most_tuples import MostTuples
from headgate.scheduling.policies.round_robin import RoundRobin
from headgate.scheduling.policy import Policy, Selector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.view import Performance, View

# Selections in a saved state.
_HISTORY = 100
# Decisions in a saved state: it is written with every epoch.
_DECISIONS = 3
# Intervals longer than this many times the usual one are not scored.
_PAUSE = 10
# A learner that watches the backlog sees it this often (s), if a candidate runs longer.
_SAMPLE = 1.0


@dataclass
class SelectionParameters:
    """The parameters of every policy that selects among others; each policy has its own default candidates."""

    policies: tuple[Policy, ...] = parameter("policies", tuple, "the candidates, joined by +")
    weights: Mapping[str, float] = parameter("weights", lambda: {"delay": 1.0}, "the spec, as in delay*0.7+output*0.3")
    learner: str = parameter("choice", "controlled", "how the next candidate is selected", tuple(LEARNERS))
    decay: float = parameter("fraction", 0.3, "share of the old score that is kept (002 uses 0 to 0.5)")
    interval: float = parameter("seconds", 1.0, "minimum time a candidate runs")
    seed: float = parameter("number", 0, "seed of the selection")


def _candidates() -> tuple[Policy, ...]:
    return (RoundRobin(), Fifo(), MostTuples(), Chain())


@register()
@dataclass
class Amos(SelectionParameters, Policy):
    """Each candidate runs for at least an `interval`; first each runs once, then the learner selects.

    The objectives may change while it runs (`pursue`): measures of all are kept, so nothing is forgotten.
    The paper's learner is the roulette wheel (`learner=wheel`); ours is the default, because it scores better on every
    spec of the paper (`headgate reproduce amos-learners`).
    """

    name: ClassVar[str] = "amos"
    policies: tuple[Policy, ...] = parameter("policies", _candidates, "the candidates, joined by +")
    history: list[tuple[float, str]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if not self.policies:
            raise PolicyError("policy 'amos' needs at least one candidate")
        self._names = [f"{number}:{p.name}" for number, p in enumerate(self.policies)]
        self.spec = ObjectiveWeights.of(self.weights)
        self._generation = 0
        self._scores = Scores(self.decay)
        self._learner: Learner = learner(self.learner)
        self._random = Random(self.seed)
        self._current = 0
        self._untried = list(range(1, len(self.policies)))
        self._before = Performance()
        self._since = 0.0
        self._found = Situation(0.0, 0.0, 0.0, 0.0, 0.0)
        self.history.append((0.0, self.policies[0].name))
        self._log = DecisionLog()

    @property
    def current(self) -> Policy:
        """The running candidate."""
        return self.policies[self._current]

    @property
    def refresh_every(self) -> float:
        return min(self.interval, _SAMPLE) if self._learner.watches else self.interval

    @property
    def generation(self) -> int:
        return self._generation

    def cut(self, view: View) -> Cut:
        return self.current.cut(view)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return self.current.selector(view, units, members)

    def score(self, place: int) -> float | None:
        """A candidate's score by equation 2, or None if it has not run."""
        return self._scores.score(self._names[place], self.spec)

    def refresh(self, view: View, now: float) -> bool:
        changed = self.current.refresh(view, now)
        if now <= self._since:
            return changed
        performance = self.measure(view, now)
        if now - self._since > _PAUSE * self.interval:
            # The engine has just started, or was idle: the interval says nothing about the candidate.
            self._before, self._since = performance, now
            self._found = self.situation(view, performance)
            return changed
        if self._learner.watches:
            found, self._found = self._found, self.situation(view, performance)
            self._learner.compare(self._names[self._current], found, self._found, self.spec.weights)
        if now < self._since + self.interval * (1 - 1e-9):
            return changed
        self._score(performance, now - self._since)
        self._before, self._since = performance, now
        untried = bool(self._untried)
        following = self._select()
        if following == self._current:
            return changed
        before, self._current = self.current.name, following
        self._generation += 1
        self.history.append((now, self.current.name))
        self._note(now, before, untried)
        return True

    def measure(self, view: View, now: float) -> Performance:
        """The running totals that it is judged by."""
        return view.performance.copy()

    def situation(self, view: View, performance: Performance) -> Situation:
        """The present backlog."""
        return Situation.of(view)

    @property
    def subject(self) -> str:
        """The class that it decides for; empty: all."""
        return ""

    def decisions(self) -> Sequence[Mapping[str, Any]]:
        return self._log.plain()

    def _note(self, now: float, before: str, untried: bool) -> None:
        """Records a selection with its reason."""
        scores = {n: s for n in self._names if (s := self._scores.score(n, self.spec)) is not None}
        means = self._learner.beliefs()
        chosen = self._names[self._current]
        weights = ", ".join(f"{name} {weight:.0%}" for name, weight in self.spec.weights.items())
        if untried:
            reason = f"{self.current.name} has not run yet"
        elif chosen == max(scores, key=lambda name: scores[name]):
            reason = f"the best score for {weights}"
        else:
            reason = f"{self.learner}: drawn among scores that are close, for {weights}"
        if means:
            reason += f"; {self.learner} compares the backlogs that candidates leave"
        expected = {"score": scores[chosen]} if chosen in scores else {}
        if chosen in means:
            expected["effect"] = means[chosen]
        self._log.add(now, "policy", self.subject, self.current.name, before, reason, scores=scores, expected=expected)

    def pursue(self, objectives: Objectives) -> None:
        self.spec = ObjectiveWeights.of(objectives or self.weights)
        for policy in self.policies:
            policy.pursue(objectives)

    def state(self) -> dict[str, Any]:
        """Everything except the older history, which grows with every selection and is only shown to people."""
        version, words, gauss = self._random.getstate()
        return {
            "policies": [policy.state() for policy in self.policies],
            "spec": dict(self.spec.weights),
            "current": self._current,
            "untried": list(self._untried),
            "scores": self._scores.state(),
            "learner": self._learner.state(),
            "random": [version, base64.b64encode(np.array(words, "<u4").tobytes()).decode(), gauss],
            "before": asdict(self._before),
            "since": self._since,
            "found": asdict(self._found),
            "history": [list(each) for each in self.history[-_HISTORY:]],
            "decisions": self._log.plain()[-_DECISIONS:],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for policy, known in zip(self.policies, state["policies"], strict=True):
            policy.restore(known)
        self.spec = ObjectiveWeights(dict(state["spec"]))
        self._current, self._untried = state["current"], list(state["untried"])
        self._scores.restore(state["scores"])
        self._learner.restore(state["learner"])
        version, words, gauss = state["random"]
        numbers = np.frombuffer(base64.b64decode(words), "<u4").tolist()
        self._random.setstate((version, tuple(numbers), gauss))
        self._before, self._since = Performance(**state["before"]), state["since"]
        self._found = Situation(**state["found"])
        self.history[:] = [(moment, name) for moment, name in state["history"]]
        self._log.restore(state.get("decisions", ()))
        self._generation += 1

    def _score(self, after: Performance, seconds: float) -> None:
        values = {
            name: value
            for name, objective in OBJECTIVES.items()
            if (value := objective.measure(self._before, after, seconds)) is not None
        }
        name = self._names[self._current]
        self._scores.update(name, values)
        reward = self._scores.reward(values, self.spec)
        self._learner.learn(name, reward)
        if self._log.last is not None:
            self._log.last.measured({"reward": reward, **values})

    def _select(self) -> int:
        if self._untried:
            return self._untried.pop(0)
        scores = {n: self._scores.score(n, self.spec) or 0.0 for n in self._names}
        return self._names.index(self._learner.choose(scores, self._random))

"""Searches for the steps to take when a demand is missed, by predictions of their courses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from headgate.control.observation import Demand, Observation
from headgate.control.prediction import Course, Predictor
from headgate.control.setting import Setting, Step
from headgate.control.steps import candidates
from headgate.graph.specs import SPEC_WINDOW

SETTLE = SPEC_WINDOW + 2.0
"""Least seconds of a trial: the window over which specs are judged, and some for the change itself."""
HELPED = 0.1
"""Share by which a step must reduce the total excess of all demands to count as helpful."""
PATIENCE = 2.0
"""A cheaper step is taken if it suffices after at most so many times as long as the quickest one, or within a trial."""
MARGIN = 0.9
"""A step suffices if the missed demands are predicted to use at most this share of what they allow, and the others
to be met."""
FAR = 100.0
MOST_STEPS = 3
"""Most steps that are taken at once, if fewer are not predicted to suffice."""
WAITING = ("wait", "", "")
"""The key under which doing nothing is banned after it did not help."""

Key = tuple[str, str, str]
"""Identifies a step for bans."""


@dataclass(frozen=True)
class StepPlan:
    """Steps that are predicted to suffice after `met` seconds (infinite: only to help), and their course."""

    steps: tuple[Step, ...]
    met: float
    course: Course


class StepSearch:
    """The search for one observation: `first` is the demand to help first, `limits` the excess that each may have
    (`limits_of`), `banned` the steps not to be tried now."""

    def __init__(
        self,
        seen: Observation,
        setting: Setting,
        predictor: Predictor,
        first: Demand,
        limits: Mapping[str, float],
        banned: Callable[[Key], bool],
    ) -> None:
        self._seen = seen
        self._setting = setting
        self._predictor = predictor
        self._first = first
        self._banned = banned
        self._limits = limits

    def plan(self) -> StepPlan | None:
        """The cheapest steps that are predicted to suffice, or else those that help most; None if nothing helps.

        Rows are shed only if nothing else suffices.
        """
        steps = [step for step in candidates(self._seen, self._setting, self._first) if not self._banned(key_of(step))]
        cheaper = [step for step in steps if step.kind != "shedding"]
        nothing = () if self._banned(WAITING) else ((),)
        plan = self._quick([*nothing, *((step,) for step in cheaper)])
        if plan is None:
            plan = self._together(shed=False)
        if plan is None or plan.met == inf:
            shed = [(step,) for step in steps if step.kind == "shedding"]
            plan = self._quick(shed) or plan
        if plan is None or plan.met == inf:
            plan = self._together(shed=True)
        if plan is not None and len(plan.steps) > 1 and plan.met < inf:
            plan = self._without_excess(plan, steps)
        return plan

    def _without_excess(self, plan: StepPlan, steps: list[Step]) -> StepPlan:
        """A sufficient plan without the steps that the others do not need, the most expensive first, and with as
        little shedding as suffices."""
        for step in sorted(plan.steps, key=lambda step: -step.rank):
            others = tuple(each for each in plan.steps if each != step)
            less = [(*others, each) for each in steps if each.kind == "shedding"] if step.kind == "shedding" else []
            plan = self._quick([others, *less]) or plan
        return plan

    def _quick(self, choices: Iterable[tuple[Step, ...]]) -> StepPlan | None:
        """The first choice that suffices and does not take far longer than another one."""
        found: list[StepPlan] = []
        for steps in choices:
            setting = self._setting
            for step in steps:
                setting = step.applied_to(setting)
            course = self._predictor.course(setting)
            met = course.met_after(self._limits)
            if met < inf:
                found.append(StepPlan(steps, met, course))
            if met <= SETTLE:
                break
        quickest = min((plan.met for plan in found), default=inf)
        return next((plan for plan in found if plan.met <= max(SETTLE, PATIENCE * quickest)), None)

    def _together(self, shed: bool) -> StepPlan | None:
        """Up to MOST_STEPS steps, each the one that helps most after the others."""
        setting = self._setting
        taken: list[Step] = []
        course = self._predictor.course(setting)
        now = total_excess(self._seen, course.lasting, self._limits)
        for _ in range(MOST_STEPS):
            best: tuple[float, int, Step, Course] | None = None
            for step in candidates(self._seen, setting, self._first):
                if step.kind == "shedding" and not shed:
                    continue
                if self._banned(key_of(step)) or any(step.kind == known.kind for known in taken):
                    continue
                after = self._predictor.course(step.applied_to(setting))
                left = total_excess(self._seen, after.lasting, self._limits)
                if left <= 0:
                    return StepPlan((*taken, step), after.met_after(self._limits), after)
                # If the excess is infinite, any step that makes it finite helps.
                if left <= (1 - HELPED) * now and (best is None or left < _less_than(best[0], best[2], step)):
                    best = (left, step.rank, step, after)
            if best is None:
                break
            now, _, step, course = best
            taken.append(step)
            setting = step.applied_to(setting)
        return StepPlan(tuple(taken), inf, course) if taken else None


def measured_excess(seen: Observation) -> dict[str, float]:
    """The measured excess of each demand."""
    return {query: demand.excess for query, demand in seen.demands.items()}


def limits_of(seen: Observation, impossible: Mapping[str, float]) -> dict[str, float]:
    """The excess that each demand may have: missed ones must be met with a margin, the others must stay met.

    `impossible`: the limits of demands that cannot be met.
    """
    usual = {query: MARGIN - 1 if demand.missed else 0.0 for query, demand in seen.demands.items()}
    return {query: impossible.get(query, limit) for query, limit in usual.items()}


def total_excess(seen: Observation, excess: Mapping[str, float], limits: Mapping[str, float]) -> float:
    """By how much all demands exceed their limits, weighted by the priority of their class; 0 if none does.

    `excess` is that of each query (`Demand.excess`), capped at FAR: a query without results must not hide all others.
    """
    total = 0.0
    for query, value in excess.items():
        if value > limits[query]:
            total += seen.demands[query].priority * (min(value, FAR) - limits[query])
    return total


def key_of(step: Step) -> Key:
    """Identifies a step."""
    return step.kind, step.subject, str(step.value)


def _less_than(left: float, known: Step, step: Step) -> float:
    """What a step must leave to be better than a known one that leaves `left`; one of the same cost, anything less."""
    return left if step.kind == known.kind and step.kind != "shedding" else (1 - HELPED) * left

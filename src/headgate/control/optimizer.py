"""The run-time optimizer: when a spec is missed, takes the cheapest step that the simulator predicts to help.

It watches the demands of all queries (003 §3.3). Predictions begin with the backlog and give the course of each demand
with and without a step. A step is on trial until these two differ: then the measured course shows whether it helps,
however long the backlog takes. A step that did not help is undone and not tried again for some time; a step that is no
longer needed is undone as well. To do nothing is a step too: it is right where the backlog goes by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from headgate.control.observation import Demand, Observation
from headgate.control.prediction import STEADY, Course, Predictor, work
from headgate.control.setting import Setting, Step
from headgate.control.step_search import (
    HELPED,
    SETTLE,
    WAITING,
    Key,
    StepPlan,
    StepSearch,
    key_of,
    limits_of,
    measured_excess,
    total_excess,
)
from headgate.control.steps import extreme
from headgate.graph.specs import SPEC_WINDOW
from headgate.scheduling.decisions import Decision, DecisionLog

MISSED_FOR = 2.0
"""Seconds that a demand must be missed before a step is taken."""
DOUBTED_FOR = 3.0
"""Seconds for which the measured course must not be the expected one before that counts."""
OFF_COURSE = 2.0
"""The measured excess is off course if it is more than so many times the expected one."""
MORE_WORK = 1.2
"""A step is not blamed for a demand that is missed when the streams bring so many times the work of before."""
COMFORT = 0.7
"""A step is undone if all demands use, and are predicted to use without it, at most this share of what they allow."""
CALM_FOR = 20.0
"""Seconds that all demands must be met before a step is undone; doubled each time that was too early."""
BANNED_FOR = 60.0
"""Seconds for which a step that did not help is not tried again; doubled each time."""
LONGEST_PAUSE = 60.0
"""Most seconds between two predictions while no step helps; the interval starts at half a trial and doubles."""
LOOKAHEAD = 90.0
"""Virtual seconds for which demands must be predicted to be met without a step: a slight overload shows late."""


@dataclass
class Trial:
    """Steps on trial, taken at a time; none: the optimizer waits for the backlog to be processed.

    - `before`: the setting without them; `excess`: the total excess before them, `peak`: the highest since then
    - `expected`, `otherwise`: the predicted courses with and without them
    - `limits`: the excess that each demand may have; `met`: the time after which all demands are predicted to be met
    - `work`: what the streams bring (see `prediction.work`)
    - `undo`: a step was undone because it is no longer needed
    - `doubted`: since when the measured course has not been the expected one
    - `helped`: the steps have been seen to help
    """

    at: float
    steps: tuple[Step, ...]
    before: Setting
    excess: float
    expected: Course
    otherwise: Course
    limits: Mapping[str, float]
    met: float
    work: float
    undo: bool = False
    decisions: list[Decision] = field(default_factory=list)
    peak: float = 0.0
    doubted: float | None = None
    helped: bool = False


class Optimizer:
    """Chooses the setting of one engine. Used by one thread.

    `decided` is called with every decision, and again when its effect is known. `usual` is the initial setting.
    """

    def __init__(self, usual: Setting, decided: Callable[[Decision], None] = lambda _: None) -> None:
        self.setting = usual
        self.impossible: dict[str, float] = {}
        """For specs that cannot be met: the best latency (s) that is predicted to be reachable."""
        self._usual = usual
        self._decided = decided
        self._log = DecisionLog()
        self._taken: list[tuple[Step, Setting]] = []
        self._trial: Trial | None = None
        self._missed_since: float | None = None
        self._calm_since: float | None = None
        self._calm_for = CALM_FOR
        self._bans: dict[tuple[str, str, str], tuple[float, float]] = {}
        self._relaxed = False
        self._predicted_at = -inf
        self._pause = SETTLE / 2
        self._excess: deque[tuple[float, dict[str, float]]] = deque()

    def tick(self, seen: Observation) -> Setting:
        """Checks the demands and returns the setting from now on. Call it about once a second."""
        missed = [demand for demand in seen.demands.values() if demand.missed]
        self._remember(seen)
        for query in list(self.impossible):
            if query not in seen.demands or not seen.demands[query].missed:
                del self.impossible[query]
        self._note_times(seen.now, bool(missed), seen)
        trial = self._trial
        if trial is not None:
            if not (self._undone(seen, trial, missed) if trial.undo else self._judged(seen, trial)):
                return self.setting
            self._trial = None
        if missed and self._missed_since is not None and seen.now - self._missed_since >= MISSED_FOR:
            self._help(seen, missed)
        elif self._calm_since is not None and seen.now - self._calm_since >= self._calm_for and self._taken:
            self._relax(seen)
        return self.setting

    # Help -------------------------------------------------------------------------------------------------

    def _help(self, seen: Observation, missed: list[Demand]) -> None:
        if seen.now - self._predicted_at < self._pause:
            return
        self._predicted_at = seen.now
        predictor = Predictor(seen, self.setting, steady=self._steady(seen.now))
        first = max(missed, key=lambda demand: (demand.priority, demand.excess))
        limits = limits_of(seen)
        plan = StepSearch(seen, self.setting, predictor, first, lambda key: self._banned(seen.now, key)).plan()
        if plan is None:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._say_impossible(seen, predictor, first)
            return
        self._pause = SETTLE / 2
        if plan.steps and self._relaxed:
            # A step that was undone is needed again: the next time it stays longer.
            self._relaxed, self._calm_for = False, 2 * self._calm_for
        self._take(seen, predictor, plan, limits, first)

    def _take(
        self, seen: Observation, predictor: Predictor, plan: StepPlan, limits: Mapping[str, float], missed: Demand
    ) -> None:
        before, setting = self.setting, self.setting
        decisions: list[Decision] = []
        why = f"{missed.query} is at {_level(missed)}"
        for step in plan.steps:
            following = step.applied_to(setting)
            expected = predictor.course(following).lasting
            decisions.append(self._note(seen, step, setting, f"{why}; {_prediction_text(expected)}", expected))
            setting = following
        self.setting = setting
        self._trial = Trial(
            seen.now,
            plan.steps,
            before,
            total_excess(seen, measured_excess(seen), limits),
            plan.course,
            predictor.course(before),
            limits,
            plan.met,
            work(seen, before),
            decisions=decisions,
        )

    def _say_impossible(self, seen: Observation, predictor: Predictor, missed: Demand) -> None:
        """No step helps: if even the best setting would not meet the demand, reports the best latency it reaches."""
        if missed.longest is None:
            return
        best = min(predictor.latency(setting, missed.query) for setting in extreme(seen, self.setting, missed))
        best = min(best, missed.latency or inf)
        known = self.impossible.get(missed.query)
        if best <= missed.longest or best == inf:
            return
        self.impossible[missed.query] = best
        if known is None or abs(best / known - 1) > 0.2:
            reason = f"{missed.query} is at {_level(missed)}, and no step is predicted to help"
            chosen, expected = f"best reachable: {best:.3g} s", {"latency": best}
            made = self._log.add(seen.now, "impossible", missed.query, chosen, "", reason, expected=expected)
            self._decided(made)

    # Check and relax --------------------------------------------------------------------------------------

    def _judged(self, seen: Observation, trial: Trial) -> bool:
        """Whether a trial is over; keeps its steps or undoes them. Demands that came later do not count."""
        limits = trial.limits
        measured = {query: excess for query, excess in measured_excess(seen).items() if query in limits}
        excess = total_excess(seen, measured, limits)
        trial.peak = max(trial.peak, excess)
        elapsed = seen.now - trial.at
        if elapsed < SETTLE:
            return False
        if all(value <= 0 for value in measured.values()):
            self._keep(seen, trial, elapsed)
            return True
        expected, otherwise = (
            total_excess(seen, {query: course.at(elapsed)[query] for query in measured}, limits)
            for course in (trial.expected, trial.otherwise)
        )
        if not trial.steps or trial.helped:
            # On course until all demands should be met; otherwise predictions are made anew.
            late = elapsed > trial.met + SETTLE or trial.met == inf
            if not late and excess <= OFF_COURSE * expected + HELPED * trial.peak:
                trial.doubted = None
                return False
        elif otherwise - expected > HELPED * otherwise:
            if excess <= (expected + otherwise) / 2:
                trial.helped, trial.doubted = True, None
                return False
        elif elapsed < trial.expected.times[-1]:
            # Up to now the steps are not predicted to make a difference.
            return False
        else:
            trial.helped = excess <= (1 - HELPED) * max(trial.excess, trial.peak)
        if trial.doubted is None:
            trial.doubted = seen.now
        if seen.now - trial.doubted < DOUBTED_FOR:
            return False
        if trial.helped or work(seen, trial.before) > MORE_WORK * trial.work:
            self._keep(seen, trial, elapsed)
        else:
            self._undo(seen, trial, elapsed)
        return True

    def _compare(self, seen: Observation, trial: Trial, elapsed: float) -> None:
        """Adds what is measured now, and what was predicted for now, to the decisions of a trial."""
        came, expected = measured_excess(seen), trial.expected.at(elapsed)
        for decision in trial.decisions:
            decision.expected = expected
            decision.measured(came)
            self._decided(decision)

    def _keep(self, seen: Observation, trial: Trial, elapsed: float) -> None:
        self._compare(seen, trial, elapsed)
        setting = trial.before
        for step in trial.steps:
            self._taken.append((step, setting))
            setting = step.applied_to(setting)

    def _undo(self, seen: Observation, trial: Trial, elapsed: float) -> None:
        self._compare(seen, trial, elapsed)
        for key in [key_of(step) for step in trial.steps] or [WAITING]:
            span = self._bans.get(key, (0.0, BANNED_FOR / 2))[1] * 2
            self._bans[key] = (seen.now + span, span)
        for step in trial.steps:
            self._note(seen, step.inverse(trial.before), self.setting, "it did not help", {})
        self.setting = trial.before

    def _undone(self, seen: Observation, trial: Trial, missed: list[Demand]) -> bool:
        """Whether the trial of a step that was undone is over; takes the step again if it is still needed."""
        elapsed = seen.now - trial.at
        if elapsed < SETTLE and not missed:
            return False
        self._compare(seen, trial, elapsed)
        if missed:
            # The step is taken again, and stays longer.
            self._relaxed, self._calm_for = False, 2 * self._calm_for
            for step in trial.steps:
                again = step.inverse(trial.before)
                self._note(seen, again, self.setting, "it was still needed", {})
                self._taken.append((again, self.setting))
                self.setting = again.applied_to(self.setting)
        return True

    def _relax(self, seen: Observation) -> None:
        """Undoes the most expensive step without which all demands are predicted to be met."""
        self._calm_since = seen.now
        predictor = Predictor(seen, self.setting, LOOKAHEAD, self._steady(seen.now))
        # The most expensive kind first, and within a kind the latest step first.
        ranked = sorted(enumerate(self._taken), key=lambda each: (-each[1][0].rank, -each[0]))
        for _, (step, before) in ranked:
            back = step.inverse(before)
            setting = back.applied_to(self.setting)
            course = predictor.course(setting)
            expected = course.lasting
            if all(left <= COMFORT - 1 for left in expected.values()):
                decision = self._note(
                    seen, back, self.setting, "no longer needed; " + _prediction_text(expected), expected
                )
                limits = limits_of(seen)
                otherwise = predictor.course(self.setting)
                self._trial = Trial(
                    seen.now,
                    (back,),
                    self.setting,
                    0.0,
                    course,
                    otherwise,
                    limits,
                    0.0,
                    work(seen, setting),
                    undo=True,
                    decisions=[decision],
                )
                self._taken.remove((step, before))
                self._relaxed = True
                self.setting = setting
                return

    def _remember(self, seen: Observation) -> None:
        self._excess.append((seen.now, measured_excess(seen)))
        while self._excess[0][0] < seen.now - SPEC_WINDOW:
            self._excess.popleft()

    def _steady(self, now: float) -> set[str]:
        """The demands that have changed little over the last window."""
        if self._excess[0][0] > now - SPEC_WINDOW + 1.5:
            return set()
        found: set[str] = set()
        for query in self._excess[-1][1]:
            used = [1 + excess.get(query, inf) for _, excess in self._excess]
            if 0 < max(used) < STEADY * min(used):
                found.add(query)
        return found

    def _note_times(self, now: float, missed: bool, seen: Observation) -> None:
        if not missed:
            self._missed_since = None
        elif self._missed_since is None:
            self._missed_since = now
        calm = not missed and all(demand.excess <= COMFORT - 1 for demand in seen.demands.values())
        if not calm:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now

    def _banned(self, now: float, key: Key) -> bool:
        return self._bans.get(key, (-inf, 0.0))[0] > now

    def _note(
        self, seen: Observation, step: Step, before: Setting, reason: str, expected: Mapping[str, float]
    ) -> Decision:
        old = step.inverse(before).text
        made = self._log.add(seen.now, step.kind, step.subject, step.text, old, reason, expected=dict(expected))
        self._decided(made)
        return made


def _level(demand: Demand) -> str:
    if demand.longest is not None and demand.latency is not None and demand.latency > demand.longest:
        return f"{demand.latency:.3g} s of {demand.longest:.3g} s"
    if demand.largest is not None and demand.memory is not None:
        return f"{demand.memory:.3g} of {demand.largest:.3g} bytes"
    return "its limit"


def _prediction_text(expected: Mapping[str, float]) -> str:
    worst = max(expected, key=lambda query: expected[query], default="")
    if not worst:
        return "nothing is predicted"
    left = expected[worst]
    if left == inf:
        return f"{worst} would give no results"
    return f"the simulator predicts {worst} at {1 + left:.0%} of what is allowed"

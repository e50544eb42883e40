"""The run-time optimizer: when a spec is missed, takes the cheapest step that the simulator predicts to help.

It watches the demands of all queries (003 §3.3). Predictions begin with the backlog and give the course of each demand
with and without a step. A step is on trial until these two differ: then the measured course shows whether it helps,
however long the backlog takes. A step that did not help is undone and not tried again for some time; a step that is no
longer needed is undone as well. To do nothing is a step too: it is right where the backlog goes by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from math import inf

from headgate.control.impossible import ImpossibleSpecs, Reachable
from headgate.control.observation import Demand, Observation
from headgate.control.prediction import STEADY, Predictor, work
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
from headgate.control.trial import Trial
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
"""A step is undone if all demands use, and are predicted to use without it, at most this share of what they allow; or,
as pauses use what a latency allows, at most ABOVE_AIM more than they aim at."""
ABOVE_AIM = 0.05
HEADROOM = 1.1
"""Without a step that is undone, demands must also be predicted to be met if the streams bring so many times the rows:
close to saturation a prediction may be wrong by any factor."""
CALM_FOR = 20.0
"""Seconds that all demands must be met before a step is undone; doubled each time that was too early."""
BANNED_FOR = 60.0
"""Seconds for which a step that did not help is not tried again; doubled each time."""
LONGEST_PAUSE = 60.0
"""Most seconds between two predictions while no step helps; the interval starts at half a trial and doubles."""
LOOKAHEAD = 90.0
"""Virtual seconds for which demands must be predicted to be met without a step: a slight overload shows late."""


class Optimizer:
    """Chooses the setting of one engine. Used by one thread.

    `decided` is called with every decision, and again when its effect is known. `usual` is the initial setting.
    """

    def __init__(self, usual: Setting, decided: Callable[[Decision], None] = lambda _: None) -> None:
        self.setting = usual
        self._impossible = ImpossibleSpecs()
        self._attempts: Mapping[str, int] = {}
        self._decided = decided
        self._log = DecisionLog()
        self._taken: list[tuple[Step, Setting]] = []
        self._trial: Trial | None = None
        self._missed_since: float | None = None
        self._calm_since: float | None = None
        self._calm_for = CALM_FOR
        self._bans: dict[Key, tuple[float, float]] = {}
        self._relaxed = False
        self._predicted_at = -inf
        self._pause = SETTLE / 2
        self._attempted: set[str] = set()
        self._excess: deque[tuple[float, dict[str, float]]] = deque()

    def tick(self, seen: Observation) -> Setting:
        """Checks the demands and returns the setting from now on. Call it about once a second."""
        self._forget_gone(seen)
        self._impossible.observe(seen)
        excused = self._impossible.limits(seen.now)
        missed = [each for each in seen.demands.values() if each.excess > excused.get(each.query, 0.0)]
        self._remember(seen)
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
        queries = {each.query for each in missed}
        known = queries <= self._attempted
        if known and seen.now - self._predicted_at < self._pause:
            return
        if not known:
            # Demands that cannot be helped do not delay help for another one.
            self._pause = SETTLE / 2
        self._predicted_at, self._attempted = seen.now, queries
        predictor = Predictor(seen, self.setting, steady=self._steady(seen.now))
        first, limits, plan = self._searched(seen, predictor, missed)
        if plan is None or plan.met == inf:
            excused = self._impossible.limits(seen.now)
            doubtful = [each for each in missed if each.query not in excused]
            found = self._impossible.find(seen, self.setting, predictor, doubtful)
            for best, new in found:
                if new:
                    self._say_impossible(seen, best)
            if 0 < len(found) < len(missed):
                # The others can be helped.
                first, limits, plan = self._searched(seen, predictor, missed)
        if plan is None:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            return
        self._pause = SETTLE / 2
        if plan.steps and self._relaxed:
            # A step that was undone is needed again: the next time it stays longer.
            self._relaxed, self._calm_for = False, 2 * self._calm_for
        self._take(seen, predictor, plan, limits, first)

    def _searched(
        self, seen: Observation, predictor: Predictor, missed: list[Demand]
    ) -> tuple[Demand, dict[str, float], StepPlan | None]:
        """The demand to help first, the limits of all, and what to do. Impossible demands come last."""
        impossible = self._impossible.limits(seen.now)
        first = max(missed, key=lambda each: (each.query not in impossible, each.priority, each.excess))
        limits = limits_of(seen, impossible)
        search = StepSearch(seen, self.setting, predictor, first, limits, lambda key: self._banned(seen.now, key))
        return first, limits, search.plan()

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

    def _say_impossible(self, seen: Observation, best: Reachable) -> None:
        reason = f"{best.demand.query} is at {_level(best.demand)}, and no setting is predicted to meet that"
        values = {"latency": best.latency, "memory": best.memory}
        expected = {name: value for name, value in values.items() if value is not None}
        query = best.demand.query
        self._decided(self._log.add(seen.now, "impossible", query, best.text, "", reason, expected=expected))

    @property
    def impossible(self) -> Mapping[str, Reachable]:
        """The specs that cannot be met, with the best that is predicted to be reachable. Any thread may read it."""
        return self._impossible.known

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
        if all(value <= max(0.0, limits[query]) for query, value in measured.items()):
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
            # Longer pauses use up what they aim at: the rest must be left for what predictions do not know.
            comfort = self._comfort(seen, setting.aim - (ABOVE_AIM if step.kind == "pace" else 0.0))
            if all(left <= comfort[query] for query, left in expected.items()) and self._has_headroom(seen, setting):
                decision = self._note(
                    seen, back, self.setting, "no longer needed; " + _prediction_text(expected), expected
                )
                limits = limits_of(seen, self._impossible.limits(seen.now))
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

    def _has_headroom(self, seen: Observation, setting: Setting) -> bool:
        """Whether all demands are predicted to be met under a setting with HEADROOM times the rows."""
        rates = {stream: HEADROOM * rate for stream, rate in seen.load.rates.items()}
        more = replace(seen, load=replace(seen.load, rates=rates))
        limits = limits_of(seen, self._impossible.limits(seen.now))
        lasting = Predictor(more, setting, LOOKAHEAD).course(setting).lasting
        return all(left <= max(0.0, limits[query]) for query, left in lasting.items())

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
        comfort = self._comfort(seen, self.setting.aim)
        calm = not missed and all(demand.excess <= comfort[query] for query, demand in seen.demands.items())
        if not calm:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now

    def _comfort(self, seen: Observation, aim: float) -> dict[str, float]:
        """The excess of each demand up to which steps may be undone; `aim`: that of the pauses."""
        paced = max(COMFORT, aim + ABOVE_AIM) - 1
        found = {query: COMFORT - 1 if each.longest is None else paced for query, each in seen.demands.items()}
        return {**found, **self._impossible.limits(seen.now)}

    def _forget_gone(self, seen: Observation) -> None:
        """Forgets plans and shedding of queries that are gone or were declared again, and shedding that is no longer
        allowed."""
        plans: Container[str] = seen.queries if seen.queries is not None else self.setting.plans
        shed = {name: 1 - each.accuracy for name, each in seen.demands.items() if each.accuracy is not None}
        if seen.queries is not None:
            same = {q for q, attempt in seen.queries.items() if self._attempts.get(q, attempt) == attempt}
            self._attempts, plans = seen.queries, same
            shed = {query: most for query, most in shed.items() if query in same}
        setting = self.setting.limited(plans, shed)
        if setting == self.setting:
            return
        self.setting = setting
        taken = ((step.limited(plans, shed), before.limited(plans, shed)) for step, before in self._taken)
        self._taken = [(step, before) for step, before in taken if step is not None]
        trial = self._trial
        if trial is not None:
            left = tuple(each for step in trial.steps if (each := step.limited(plans, shed)) is not None)
            trial.before = trial.before.limited(plans, shed)
            self._trial = None if trial.steps and not left else trial
            trial.steps = left

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

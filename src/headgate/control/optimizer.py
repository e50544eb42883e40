"""The run-time optimizer: when a spec is missed, takes the cheapest step that the simulator predicts to help.

It watches the demands of all queries (003 §3.3). A step is on trial until its effect can be measured. A step that did
not help is undone and not tried again for some time; a step that is no longer needed is undone as well. Changes are
rare on purpose: a demand must be missed for some time, a trial takes longer than the window over which specs are
judged, and a step that was undone too early stays longer the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from headgate.control.observation import Demand, Observation
from headgate.control.prediction import Predictor
from headgate.control.setting import Setting, Step
from headgate.control.steps import candidates, extreme
from headgate.graph.specs import SPEC_WINDOW
from headgate.scheduling.decisions import Decision, DecisionLog

MISSED_FOR = 2.0
"""Seconds that a demand must be missed before a step is taken."""
SETTLE = SPEC_WINDOW + 2.0
"""Seconds of a trial: the window over which specs are judged, and some for the change itself."""
HELPED = 0.1
"""Share by which a step must reduce the total excess of all demands to count as helpful."""
MARGIN = 0.9
"""A step suffices if all demands are predicted to use at most this share of what they allow."""
COMFORT = 0.7
"""A step is undone if all demands use, and are predicted to use without it, at most this share of what they allow."""
CALM_FOR = 20.0
"""Seconds that all demands must be met before a step is undone; doubled each time that was too early."""
BANNED_FOR = 60.0
"""Seconds for which a step that did not help is not tried again; doubled each time."""
LONGEST_PAUSE = 60.0
"""Most seconds between two predictions while no step helps; the interval starts at half a trial and doubles."""
FAR = 100.0
MOST_STEPS = 3
"""Most steps that are taken at once, if fewer are not predicted to suffice."""


@dataclass
class Trial:
    """Steps on trial: the setting and the excess before them, and the time until which they are not judged.

    `peak` is the largest excess since then. While the excess falls, a backlog is being processed, and judgement waits,
    at most until `latest`.
    """

    steps: tuple[Step, ...]
    before: Setting
    until: float
    excess: float
    undo: bool
    peak: float = 0.0
    latest: float = inf
    decisions: list[Decision] = field(default_factory=list)


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

    def tick(self, seen: Observation) -> Setting:
        """Checks the demands and returns the setting from now on. Call it about once a second."""
        excess = total_excess(seen, {query: demand.excess for query, demand in seen.demands.items()})
        missed = [demand for demand in seen.demands.values() if demand.missed]
        for query in list(self.impossible):
            if query not in seen.demands or not seen.demands[query].missed:
                del self.impossible[query]
        self._note_times(seen.now, bool(missed), seen)
        trial = self._trial
        if trial is not None:
            trial.peak = max(trial.peak, excess)
            falling = 0 < excess <= (1 - HELPED) * trial.peak and seen.now < trial.latest
            if (seen.now < trial.until or falling) and not (trial.undo and missed):
                return self.setting
            self._trial = None
            self._judge(seen, trial, excess)
            if self._trial is not None or self.setting == trial.before:
                return self.setting
        if missed and self._missed_since is not None and seen.now - self._missed_since >= MISSED_FOR:
            self._help(seen, missed, excess)
        elif self._calm_since is not None and seen.now - self._calm_since >= self._calm_for and self._taken:
            self._relax(seen, excess)
        return self.setting

    # Help -------------------------------------------------------------------------------------------------

    def _help(self, seen: Observation, missed: list[Demand], excess: float) -> None:
        if seen.now - self._predicted_at < self._pause:
            return
        self._predicted_at = seen.now
        predictor = Predictor(seen, self.setting)
        first = max(missed, key=lambda demand: (demand.priority, demand.excess))
        steps = self._planned(seen, predictor, first)
        if not steps:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._say_impossible(seen, predictor, first)
            return
        self._pause = SETTLE / 2
        if self._relaxed:
            # A step that was undone is needed again: the next time it stays longer.
            self._relaxed, self._calm_for = False, 2 * self._calm_for
        self._take(seen, predictor, steps, excess, first)

    def _planned(self, seen: Observation, predictor: Predictor, first: Demand) -> list[Step]:
        """The cheapest step that is predicted to be enough, or else the steps that help most, one after the other."""
        setting = self.setting
        taken: list[Step] = []
        now = total_excess(seen, predictor.excess(setting))
        for _ in range(MOST_STEPS):
            best: tuple[float, int, Step] | None = None
            for step in candidates(seen, setting, first):
                if self._banned(seen.now, step) or any(step.kind == known.kind for known in taken):
                    continue
                left = total_excess(seen, predictor.excess(step.applied_to(setting)))
                if left <= 0:
                    return [*taken, step]
                # If the excess is infinite, any step that makes it finite helps.
                if left <= (1 - HELPED) * now and (best is None or left < (1 - HELPED) * best[0]):
                    best = (left, step.rank, step)
            if best is None:
                break
            now, _, step = best
            taken.append(step)
            setting = step.applied_to(setting)
        return taken

    def _take(self, seen: Observation, predictor: Predictor, steps: list[Step], excess: float, missed: Demand) -> None:
        before, setting = self.setting, self.setting
        decisions: list[Decision] = []
        why = f"{missed.query} is at {_level(missed)}"
        for step in steps:
            following = step.applied_to(setting)
            expected = predictor.excess(following)
            decisions.append(self._note(seen, step, setting, f"{why}; {_prediction_text(expected)}", expected))
            setting = following
        self.setting = setting
        until = seen.now + SETTLE
        self._trial = Trial(tuple(steps), before, until, excess, False, latest=until + 2 * SETTLE, decisions=decisions)

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

    def _judge(self, seen: Observation, trial: Trial, excess: float) -> None:
        """Judges the effect of a finished trial: keeps the steps or undoes them."""
        came = {query: demand.excess for query, demand in seen.demands.items()}
        for decision in trial.decisions:
            decision.measured(came)
            self._decided(decision)
        if trial.undo:
            if excess > 0:
                # The undone step was still needed: it is taken again, and stays longer.
                self._relaxed, self._calm_for = False, 2 * self._calm_for
                for step in trial.steps:
                    again = step.inverse(trial.before)
                    self._note(seen, again, self.setting, "it was still needed", {})
                    self._taken.append((again, self.setting))
                    self.setting = again.applied_to(self.setting)
            return
        if excess <= max(0.0, (1 - HELPED) * max(trial.excess, trial.peak)):
            setting = trial.before
            for step in trial.steps:
                self._taken.append((step, setting))
                setting = step.applied_to(setting)
            return
        for step in trial.steps:
            key = (step.kind, step.subject, str(step.value))
            span = self._bans.get(key, (0.0, BANNED_FOR / 2))[1] * 2
            self._bans[key] = (seen.now + span, span)
            self._note(seen, step.inverse(trial.before), self.setting, "it did not help", {})
        self.setting = trial.before

    def _relax(self, seen: Observation, excess: float) -> None:
        """Undoes the most expensive step without which all demands are predicted to be met."""
        self._calm_since = seen.now
        predictor = Predictor(seen, self.setting)
        # The most expensive kind first, and within a kind the latest step first.
        ranked = sorted(enumerate(self._taken), key=lambda each: (-each[1][0].rank, -each[0]))
        for _, (step, before) in ranked:
            back = step.inverse(before)
            setting = back.applied_to(self.setting)
            expected = predictor.excess(setting)
            if all(left <= COMFORT - 1 for left in expected.values()):
                decision = self._note(
                    seen, back, self.setting, "no longer needed; " + _prediction_text(expected), expected
                )
                self._trial = Trial((back,), self.setting, seen.now + SETTLE, excess, True, decisions=[decision])
                self._taken.remove((step, before))
                self._relaxed = True
                self.setting = setting
                return

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

    def _banned(self, now: float, step: Step) -> bool:
        return self._bans.get((step.kind, step.subject, str(step.value)), (-inf, 0.0))[0] > now

    def _note(
        self, seen: Observation, step: Step, before: Setting, reason: str, expected: Mapping[str, float]
    ) -> Decision:
        old = step.inverse(before).text
        made = self._log.add(seen.now, step.kind, step.subject, step.text, old, reason, expected=dict(expected))
        self._decided(made)
        return made


def total_excess(seen: Observation, excess: Mapping[str, float]) -> float:
    """The total excess of all demands, weighted by the priority of their class; 0 if all are met at MARGIN.

    `excess` is that of each query (`Demand.excess`), capped at FAR: a query without results must not hide all others.
    """
    total = 0.0
    for query, value in excess.items():
        if value > MARGIN - 1:
            total += seen.demands[query].priority * (min(value, FAR) + 1 - MARGIN)
    return total


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

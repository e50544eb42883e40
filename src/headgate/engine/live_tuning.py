"""Connects the run-time optimizer to a running engine: provides its observations and applies its setting to queries."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from headgate.control.live_observation import LiveFigures, RecentShedding, observed
from headgate.control.observation import Observation
from headgate.control.plans.choices import PlanChoices
from headgate.control.setting import Setting
from headgate.control.tuning import Tuning
from headgate.engine.declarations import Declarations
from headgate.engine.metrics import EngineMetrics
from headgate.graph.queries import Query
from headgate.spark.pace import Pace
from headgate.spark.plan import Plan


class LiveTuning:
    """The setting of one run.

    - `setting`: the present one; the run sets it
    - `committed`: the queries with the plans that they had when the last run ended
    - `pace`: that of the run
    """

    def __init__(
        self,
        setting: Setting,
        committed: Iterable[Query],
        declared: Declarations,
        metrics: EngineMetrics,
        pace: Pace,
    ) -> None:
        self.setting = setting
        self._declared = declared
        self._metrics = metrics
        self._pace = pace
        self._tuning: Tuning | None = None
        self._plan: Plan | None = None
        self._choices = PlanChoices(metrics.decisions.add, time.time)
        self._choices.resume(committed, declared.queries)
        self._shedding = RecentShedding()

    def start(self, apply: Callable[[Setting], None]) -> None:
        """Starts the optimizer; it calls `apply` on a separate thread."""
        self._tuning = Tuning(self.setting, self._observe, apply, self._metrics.decisions)

    def close(self) -> None:
        """Ends the optimizer, after the change in progress, if any."""
        tuning, self._tuning = self._tuning, None
        if tuning is not None:
            tuning.close()

    @property
    def impossible(self) -> dict[str, float]:
        """See `Tuning.impossible`."""
        tuning = self._tuning
        return tuning.impossible if tuning is not None else {}

    def plan_of(self, query: str) -> dict[str, Any] | None:
        """See `PlanChoices.report`."""
        return self._choices.report(query)

    @property
    def policy(self) -> str:
        """The policy that networks run."""
        declared = self._declared
        return self.setting.policy_text(declared.policy) if declared.auto else declared.policy

    def plan_changed(self, plan: Plan) -> None:
        """Called when the run has a new plan."""
        self._plan = plan

    def apply_setting(self, queries: Iterable[Query], replicas: int) -> tuple[Query, ...]:
        """The queries with the shedding and the plans of the present setting."""
        setting, choosing = self.setting, self._declared.auto and replicas == 1
        shed = [replace(query, shed=setting.shed.get(query.name, 0.0)) for query in queries]
        return tuple(self._choices.planned(shed, setting.plans, self._metrics.driver.network, choosing))

    def _observe(self, setting: Setting) -> Observation | None:
        """On the optimizer's thread: what it sees; None if the policy is not `auto`."""
        plan, driver = self._plan, self._metrics.driver
        if plan is None or not self._declared.auto or not driver.network:
            return None
        running = {query.name for query in plan.queries}
        declared = {name: query for name, query in self._declared.queries.items() if name in running}
        now = time.time()
        figures = LiveFigures(
            now,
            self._metrics.verdicts(self._declared.judged()),
            driver.network,
            self._pace.report()["reserve"],
            driver.seconds.get("run", 0.0),
            os.cpu_count() or 1,
            self._shedding.observe(now, setting.shed),
        )
        known = self._choices.offered(driver.network) if plan.replicas == 1 else {}
        return observed(figures, declared, setting, known, self._choices.under)

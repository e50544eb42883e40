"""Connects the run-time optimizer to a running engine: provides its observations and applies its setting to queries."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from headgate.control.impossible import Reachable
from headgate.control.live_observation import Deferred, LiveFigures, RecentShedding, observed
from headgate.control.observation import Observation
from headgate.control.plans.choices import PlanChoices
from headgate.control.setting import Setting
from headgate.control.tuning import Tuning
from headgate.engine.declarations import Declarations
from headgate.engine.metrics import EngineMetrics
from headgate.engine.options import EngineOptions
from headgate.graph.queries import Query
from headgate.runtime.shedding import shed_share
from headgate.spark.pace import Pace
from headgate.spark.plan import Plan


class LiveTuning:
    """The setting of one run.

    - `committed`: the queries with the plans that they had when the last run ended
    - `pace`: that of the run; `options`: those of the engine; `beside`: how many replicas share a node

    `setting` is the present one: without policy `auto` always the usual one.
    """

    def __init__(
        self,
        options: EngineOptions,
        committed: Iterable[Query],
        declared: Declarations,
        metrics: EngineMetrics,
        pace: Pace,
        beside: Callable[[], int] = lambda: 1,
    ) -> None:
        self.setting = self._usual = options.setting
        self._options = options
        self._declared = declared
        self._metrics = metrics
        self._pace = pace
        self._beside = beside
        self._tuning: Tuning | None = None
        self._plan: Plan | None = None
        # The attempts of the queries that the optimizer has seen last, and those that the setting was made for.
        self._seen: Mapping[str, int] = {}
        self._made_for: Mapping[str, int] = {}
        self._choices = PlanChoices(metrics.decisions.add, time.time)
        self._choices.resume(committed, declared.queries)
        self._shedding = RecentShedding()

    def start(self, apply: Callable[[Setting], None]) -> None:
        """Starts the optimizer; it calls `apply` on a separate thread."""
        self._tuning = Tuning(self._usual, self._observe, apply, self._metrics.decisions)
        self._tuning.start()

    def take(self, setting: Setting) -> bool:
        """Makes a setting of the optimizer the present one; False if that was made before the policy changed. Called
        under the engine's lock."""
        tuning = self._tuning
        if tuning is None or not self._declared.auto or tuning.setting != setting:
            return False
        self.setting, self._made_for = setting, self._seen
        return True

    def follow_policy(self) -> None:
        """Called under the engine's lock before a new plan is made: without `auto` nothing stays of what the optimizer
        has done, and a later `auto` begins anew."""
        if not self._declared.auto:
            self.setting = self._usual
            if self._tuning is not None:
                self._tuning.renew()

    def close(self) -> None:
        """Ends the optimizer, after the change in progress, if any."""
        tuning, self._tuning = self._tuning, None
        if tuning is not None:
            tuning.close()

    @property
    def impossible(self) -> Mapping[str, Reachable]:
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
        """The queries with the shedding and the plans of the present setting. A query that was declared again since the
        setting was made is another one."""
        setting, made_for, queries = self.setting, self._made_for, tuple(queries)
        same = {query.name for query in queries if made_for.get(query.name) == query.attempt}
        shed = [replace(q, shed=setting.shed.get(q.name, 0.0) if q.name in same else 0.0) for q in queries]
        plans = {name: plan for name, plan in setting.plans.items() if name in same}
        choosing = self._declared.auto and replicas == 1
        return tuple(self._choices.planned(shed, plans, self._metrics.driver.network, choosing))

    def _observe(self, setting: Setting) -> Observation | None:
        """On the optimizer's thread: what it sees; None if the policy is not `auto`."""
        plan, driver = self._plan, self._metrics.driver
        if plan is None or not self._declared.auto or not driver.network:
            return None
        failed = driver.failed
        running = {query.name for query in plan.queries if not query.pause and query.name not in failed}
        declared = {name: query for name, query in self._declared.queries.items() if name in running}
        attempts = {query.name: query.attempt for query in plan.queries}
        self._seen = attempts
        now = time.time()
        options = self._options
        hosts = min(plan.replicas, self._beside())
        figures = LiveFigures(
            now,
            self._metrics.verdicts(self._declared.judged()),
            driver.network,
            self._pace.report()["reserve"],
            driver.seconds.get("run", 0.0),
            max(1, (os.cpu_count() or 1) // hosts),
            self._shedding.observe(now, {query.name: shed_share(query) for query in plan.queries if query.shed}),
            plan.replicas,
            options.budget is not None,
            options.mode == "policy",
        )
        single, network = plan.replicas == 1, driver.network
        known = Deferred(lambda: self._choices.offered(network) if single else {})
        return observed(figures, declared, setting, known, self._choices.under, attempts)

"""Connects the run-time optimizer with a running engine: what it sees, and how queries follow its setting."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from headgate.control.alternates import alternates, obstacle, planned, running_as
from headgate.control.live_observation import LiveFigures, observed
from headgate.control.observation import Observation
from headgate.control.setting import Setting
from headgate.control.tuning import Tuning
from headgate.engine.declarations import Declarations
from headgate.engine.metrics import EngineMetrics
from headgate.graph.queries import Query
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.commit import Commit
from headgate.spark.pace import Pace
from headgate.spark.plan import Plan


class LiveTuning:
    """The setting of one run.

    - `setting`: the present one; `apply` sets it
    - `plans`: the alternate plans that queries ran under when the run began (`committed_plans`)
    - `pace`: that of the run
    """

    def __init__(
        self,
        setting: Setting,
        plans: Mapping[str, str],
        declared: Declarations,
        metrics: EngineMetrics,
        pace: Pace,
    ) -> None:
        self.setting = setting
        self._plans = plans
        self._declared = declared
        self._metrics = metrics
        self._pace = pace
        self._tuning: Tuning | None = None
        self._plan: Plan | None = None

    def start(self, apply: Callable[[Setting], None]) -> None:
        """Starts the optimizer; it calls `apply` on a thread of its own."""
        self._tuning = Tuning(self.setting, self._observe, apply, self._metrics.decisions)

    def close(self) -> None:
        """Ends the optimizer, after the change that it makes, if any."""
        tuning, self._tuning = self._tuning, None
        if tuning is not None:
            tuning.close()

    @property
    def impossible(self) -> dict[str, float]:
        """See `Tuning.impossible`."""
        tuning = self._tuning
        return tuning.impossible if tuning is not None else {}

    @property
    def policy(self) -> str:
        """The policy that networks run."""
        declared = self._declared
        return self.setting.policy_text(declared.policy) if declared.auto else declared.policy

    def follows(self, plan: Plan) -> None:
        """The run has another plan."""
        self._plan = plan

    def tuned(self, query: Query, replicas: int) -> Query:
        """A query as the setting wants it."""
        setting = self.setting
        query = replace(query, shed=setting.shed.get(query.name, 0.0))
        if query.pause and self._plan is not None:
            # Rows that wait for a paused query cannot be worked off before its plan changes.
            known = next((each for each in self._plan.queries if each.name == query.name), query)
            return replace(query, plan=known.plan) if known.same_question(query) else query
        name = setting.plans.get(query.name, self._plans.get(query.name, "" if self._declared.auto else None))
        return query if name is None or replicas > 1 else planned(query, name)

    def _observe(self, setting: Setting) -> Observation | None:
        """On the optimizer's thread: what it sees; None if the policy is not `auto`."""
        plan, driver = self._plan, self._metrics.driver
        if plan is None or not self._declared.auto or not driver.network:
            return None
        running = {query.name for query in plan.queries}
        declared = {name: query for name, query in self._declared.queries.items() if name in running}
        figures = LiveFigures(
            time.time(),
            self._metrics.verdicts(self._declared.judged()),
            driver.network,
            self._pace.report()["reserve"],
            driver.seconds.get("run", 0.0),
            os.cpu_count() or 1,
        )
        single = plan.replicas == 1
        known = {name: alternates(query) for name, query in declared.items() if single and not query.pause}
        return observed(figures, declared, setting, known, planned)


def committed_plans(checkpoint: Checkpoint, commit: Commit, queries: Mapping[str, Query]) -> dict[str, str]:
    """The alternate plans that queries of the last run ended with: rows may wait in their queues."""
    if not commit.plan or all(obstacle(query) for query in queries.values()):
        return {}
    known = Plan.load(checkpoint, commit.plan).queries
    found = {q.name: running_as(queries[q.name], q.plan) for q in known if q.name in queries}
    return {name: plan for name, plan in found.items() if plan is not None}

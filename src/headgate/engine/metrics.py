"""The measurements of an engine: epochs and latencies, whether specs are met, and the decisions of the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headgate.control.decisions import DecisionHistory
from headgate.control.impossible import Reachable
from headgate.control.lifecycle import phases
from headgate.control.quality import Quality, objective_figures
from headgate.engine.declarations import ReportedDeclarations
from headgate.graph.queries import Query
from headgate.spark.driver_metrics import DriverMetrics
from headgate.spark.epochs import Epoch


class Tuned(Protocol):
    """What the optimizer reports about the queries of a run."""

    @property
    def impossible(self) -> Mapping[str, Reachable]:
        """See `Tuning.impossible`."""
        ...

    def plan_of(self, query: str) -> dict[str, Any] | None:
        """The plan of a query and its alternates (`PlanChoices.report`)."""
        ...


class EngineMetrics:
    """The measurements of an engine. Any thread may call it.

    - `driver`: the figures of the present or last run
    - `decisions`: the decisions of the engine, including those of earlier runs
    """

    def __init__(self) -> None:
        self.driver = DriverMetrics()
        self.decisions = DecisionHistory()
        self._quality = Quality()

    def begin(self, failed: Mapping[str, str]) -> None:
        """Called when a run begins; `failed`: the queries that have failed before, with the reasons."""
        self.driver = DriverMetrics(failed, time.monotonic())

    def committed(self, epoch: Epoch) -> None:
        """Counts an epoch after its commit."""
        self.driver.committed(epoch)
        if epoch.metrics is not None:
            self.decisions.reported(epoch.metrics.get("decisions", ()))

    def forget(self, query: str) -> None:
        """The query is dropped; another one may have its name."""
        self.driver.forget(query)
        self._quality.forget(query)

    def published(self, epoch: int, queries: Callable[[], Mapping[str, Query]]) -> None:
        """Called when the results of an epoch can be read; `queries` returns those whose specs are judged."""
        self.driver.published(epoch)
        self._quality.judge_when_due(queries, self.driver)

    def verdicts(self, queries: Mapping[str, Query]) -> dict[str, Any]:
        """See `Quality.judge`."""
        return self._quality.judge(queries, self.driver)

    def report(self, declared: ReportedDeclarations, running: bool, tuned: Tuned | None) -> dict[str, Any]:
        """The metrics of `Engine.metrics`, without those of a run (`EngineRun.report`)."""
        queries = declared.queries
        report = self.driver.report(queries, declared.classes, phases(queries, running))
        specs = self.verdicts(declared.judged())
        impossible = {} if tuned is None else tuned.impossible
        for name, figures in report["queries"].items():
            figures["spec"] = specs.get(name)
            figures["shed_share"] = self.driver.shed(name)
            figures["plan"] = None if tuned is None else tuned.plan_of(name)
            if figures["spec"] is not None and name in impossible:
                for asked in ("latency", "memory"):
                    best = getattr(impossible[name], asked)
                    if best is not None and asked in figures["spec"]:
                        figures["spec"][asked]["best"] = best
        return {
            **report,
            "policy": declared.policy,
            "objectives": objective_figures(declared.objectives, self.driver),
            "decision": self.decisions.last,
        }

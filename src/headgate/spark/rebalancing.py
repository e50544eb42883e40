"""Moves queries between replicas while they run, when the load is uneven and another placement pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headgate.graph.operators import Operator
from headgate.spark.balance import Balance
from headgate.spark.driver import Driver
from headgate.spark.epochs import Epochs
from headgate.spark.plan import Plan


class Rebalancing:
    """Changes the placement of one run. Used by the driver's thread."""

    def __init__(self, driver: Driver, epochs: Epochs) -> None:
        self._driver = driver
        self._epochs = epochs
        self._balance = Balance()

    @property
    def costs(self) -> dict[str, float]:
        """See `Balance.costs`."""
        return self._balance.costs

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Records the metrics of all replicas; changes the placement after the current epoch, if that pays."""
        self._balance.report(metrics)
        plan = self._epochs.plan
        # Rows that wait for a paused query cannot be moved.
        if plan.placement is None or any(query.pause for query in plan.queries):
            return
        better = self._balance.better(plan.run_queries, plan.placement)
        if better is None:
            return

        asked = _plans(plan)

        def change() -> None:
            # Queries may have changed, or been paused, since.
            plan = self._epochs.plan
            if _plans(plan) == asked and not any(query.pause for query in plan.queries):
                self._driver.replan(lambda _: replace(plan, placement=better))

        self._driver.submit(change)


def _plans(plan: Plan) -> dict[str, Operator]:
    return {query.name: query.plan for query in plan.run_queries}

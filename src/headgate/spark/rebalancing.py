"""Moves queries between replicas while they run, when the load is uneven and another placement pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headgate.spark.balance import Balance
from headgate.spark.driver import Driver
from headgate.spark.epochs import Epochs
from headgate.spark.lanes import Lanes
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

        def moved(_: Lanes) -> Plan:
            plan = self._epochs.plan
            # Queries may have changed since.
            same = {query.name for query in plan.run_queries} == set(better.routes)
            return replace(plan, placement=better) if same else plan

        self._driver.submit(lambda: self._driver.replan(moved))

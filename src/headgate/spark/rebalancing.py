"""Moves queries and keys between replicas while they run, when the load is uneven and another placement pays."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headgate.graph.operators import Operator
from headgate.scheduling.decisions import Decision, DecisionLog
from headgate.spark.balance import Balance, BetterPlacement
from headgate.spark.checkpoint import CheckpointError
from headgate.spark.driver import Driver
from headgate.spark.epochs import Epochs
from headgate.spark.levelling import KeyRows
from headgate.spark.placement import Placement
from headgate.spark.plan import Plan

_LOG = logging.getLogger("headgate.driver")


class Rebalancing:
    """Changes the placement of one run. Used by the driver's thread."""

    def __init__(self, driver: Driver, epochs: Epochs, decided: Callable[[Decision], None]) -> None:
        """`decided` is called with every change."""
        self._driver = driver
        self._epochs = epochs
        self._decided = decided
        self._decisions = DecisionLog()
        self._balance = Balance()

    @property
    def costs(self) -> dict[str, float]:
        """See `Balance.costs`."""
        return self._balance.costs

    def report(self, metrics: Mapping[str, Any], key_rows: KeyRows) -> None:
        """Records the metrics and the `key_rows` of all replicas; changes the placement after the current epoch, if
        that pays."""
        self._balance.report(metrics, key_rows)
        plan = self._epochs.plan
        # A move processes the rows that wait for paused queries: nobody has asked for that now.
        if plan.placement is None or any(query.pause for query in plan.queries):
            return
        better = self._balance.better(plan.run_queries, plan.placement)
        asked = _plans(plan)
        if better is not None:
            self._driver.submit(lambda: self._change(better, asked))

    def _change(self, change: BetterPlacement, asked: Mapping[str, Operator]) -> None:
        """Between two epochs."""
        plan = self._epochs.plan
        # Queries may have changed, or been paused, since.
        if plan.placement is None or _plans(plan) != asked or any(query.pause for query in plan.queries):
            return
        before, began = plan.placement, time.monotonic()
        try:
            self._driver.replan(lambda _: replace(plan, placement=change.placement))
        except CheckpointError:
            # A full disk, or another engine that has taken over: no epoch could be committed either.
            raise
        except ValueError as error:
            # Everything is as it was. Nobody asked for the change, so it must not end the engine.
            _LOG.warning("the placement stays as it is: %s", error)
            self._balance.moved(time.monotonic() - began)
            return
        self._balance.moved(time.monotonic() - began)
        decision = _decision(self._decisions, before, change)
        _LOG.info("%s: %s", decision.chosen, decision.reason)
        self._decided(decision)


def _decision(log: DecisionLog, before: Placement, change: BetterPlacement) -> Decision:
    after = change.placement
    names = [name for name in after.routes if before.replica_of(name) != after.replica_of(name)]
    slots = sum(old != new for old, new in zip(before.table, after.table, strict=True))
    moved = [f"{len(names)} queries"] * bool(names) + [f"{slots} of {len(after.table)} key slots"] * bool(slots)
    return log.add(
        time.time(),
        "placement",
        "",
        f"moved {' and '.join(moved) or 'keys'}",
        "",
        f"the busiest replica had {change.now:.2f} times the mean load",
        scores={"busiest": change.now},
        expected={"busiest": change.then},
    )


def _plans(plan: Plan) -> dict[str, Operator]:
    return {query.name: query.plan for query in plan.run_queries}

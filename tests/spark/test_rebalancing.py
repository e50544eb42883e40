"""A change of the placement that is due: what happens if queries change, or are paused, before it is made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

import pytest

from headgate.spark.balance import Balance, BetterPlacement
from headgate.spark.checkpoint import CheckpointError
from headgate.spark.placement import Placement
from headgate.spark.plan import Plan
from headgate.spark.rebalancing import Rebalancing
from tests.spark.test_balance import on, queries


class FakeDriver:
    """Keeps what is to be done after the epoch; has the present plan, as epochs do."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.due: list[Callable[[], object]] = []

    def submit(self, action: Callable[[], object]) -> None:
        self.due.append(action)

    def replan(self, make: Callable[[Any], Plan]) -> None:
        self.plan = make(None)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    monkeypatch.setattr(Balance, "better", lambda *_: BetterPlacement(on(1, 0, 1, 0), 2.0, 1.0))
    found = FakeDriver(Plan(queries(), "cqc", placement=on(0, 0, 1, 1)))
    Rebalancing(cast(Any, found), cast(Any, found), lambda _: None).report({"operators": []}, {})
    assert len(found.due) == 1
    return found


def _done(driver: FakeDriver) -> Placement | None:
    driver.due.pop()()
    return driver.plan.placement


def test_the_placement_is_changed(driver: FakeDriver) -> None:
    assert _done(driver) == on(1, 0, 1, 0)


def test_a_query_that_is_paused_meanwhile_keeps_its_place(driver: FakeDriver) -> None:
    """Its rows cannot be moved: the change would end the engine."""
    first, *others = driver.plan.queries
    driver.plan = replace(driver.plan, queries=(replace(first, pause="keep"), *others))
    assert _done(driver) == on(0, 0, 1, 1)


def test_a_query_of_the_same_name_with_another_plan(driver: FakeDriver) -> None:
    first, second, *others = driver.plan.queries
    driver.plan = replace(driver.plan, queries=(replace(first, plan=second.plan), second, *others))
    assert _done(driver) == on(0, 0, 1, 1)


@pytest.mark.parametrize(("error", "ends"), [(ValueError, False), (CheckpointError, True)])
def test_state_that_cannot_be_moved_stays_where_it_is(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, error: type[Exception], ends: bool
) -> None:
    """An unusable checkpoint ends the engine as it does in an epoch."""

    def refuse(_: object) -> None:
        raise error("the state of a join is not divided by this route")

    monkeypatch.setattr(driver, "replan", refuse)
    with pytest.raises(error) if ends else nullcontext():
        _done(driver)
    assert driver.plan.placement == on(0, 0, 1, 1)

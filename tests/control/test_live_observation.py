"""What the optimizer sees of a running engine: rates before shedding, costs after it, and the rows that wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headgate.control.live_observation import LiveFigures, RecentShedding, observed
from headgate.control.observation import Backlog, Observation
from headgate.control.plans.alternates import WRITTEN, alternates
from headgate.control.prediction import offered_work
from headgate.control.setting import Setting
from headgate.graph.operators import Source
from headgate.runtime.dataflow import key_of
from tests.control.plans.random_queries import compiled


def seen(setting: Setting, shed: dict[str, float], **measured: Any) -> Observation:
    """One query, whose operators have a cost of 2 ms a row, and these other figures."""
    (query,) = compiled("SELECT ts, a FROM s WHERE odd(a) = 1")
    nodes = [node for node in query.plan.walk() if not isinstance(node, Source)]
    figures = {"cost": 0.002, "selectivity": 1.0, "rate": 55.0, "queue_rows": 0, **measured}
    network = {
        "operators": [{"key": key_of(node), **figures} for node in nodes],
        "queries": {query.name: {"oldest": 7.0}},
    }
    return observed(
        LiveFigures(0.0, {}, network, 0.2, 0.0, 2, shed), {query.name: query}, setting, {}, lambda query, _: query
    )


def test_what_is_shed_is_counted_once() -> None:
    """55 rows/s remain of 100 at a share of 45%; without shedding there is work for 100, and with it for 55."""
    setting = Setting(shed={"q0": 0.45})
    load = seen(setting, {"q0": 0.45}).load
    assert load.rates["s"] == pytest.approx(100)
    work = {}
    for name, each in (("now", setting), ("all", Setting())):
        scenario = load.scenario(1.0, each)
        work[name], _ = offered_work(scenario, load.rates, {"q0": each.shed.get("q0", 0.0)}, {})
    assert work["now"] == pytest.approx(0.55 * work["all"])
    operators = len(load.scenario(1.0, setting).topology.operators)
    assert work["all"] == pytest.approx(100 * 0.002 * operators)


def test_the_backlog_has_the_rows_in_queues_and_their_age() -> None:
    load = seen(Setting(), {}, queue_rows=30).load
    assert set(load.backlog(Setting()).values()) == {Backlog(30.0, 7.0)}
    assert seen(Setting(), {}).load.backlog(Setting()) == {}


def test_rows_that_wait_in_front_of_a_plan_wait_in_front_of_the_one_that_replaces_it() -> None:
    (query,) = compiled("SELECT ts, a FROM s WHERE odd(a) = 1 AND low(b) < 2")
    plans = alternates(query)
    (other,) = set(plans) - {WRITTEN}
    first, second = ([n for n in plans[name].walk() if n.kind == "select"] for name in (WRITTEN, other))
    figures = {"cost": 0.002, "selectivity": 1.0, "rate": 55.0}
    network = {
        "operators": [{"key": key_of(n), **figures, "queue_rows": 30 if n == first[0] else 4} for n in first],
        "queries": {query.name: {"oldest": 7.0}},
    }
    seen = observed(
        LiveFigures(0.0, {}, network, 0.2, 0.0, 2, {}),
        {query.name: replace(query, plan=plans[WRITTEN])},
        Setting(),
        {},
        lambda query, name: replace(query, plan=plans[name or WRITTEN]),
    )
    changed = Setting(plans={query.name: other})
    topology = seen.load.scenario(1.0, changed).topology
    assert len(second) == 2, "a function each"
    assert seen.load.backlog(changed) == {topology.operators[0]: Backlog(30.0, 7.0)}
    assert list(seen.load.backlog(Setting()).values()) == [Backlog(30.0, 7.0), Backlog(4.0, 7.0)]


def test_the_average_share_follows_a_change_as_measured_rates_do() -> None:
    shedding = RecentShedding()
    assert shedding.observe(0.0, {}) == {}
    found: dict[str, float] = {}
    for second in range(1, 11):
        found = shedding.observe(float(second), {"q": 0.4})
    assert found == {"q": pytest.approx(0.2)}
    for second in range(11, 200):
        found = shedding.observe(float(second), {})
    assert found == {}


def test_an_unchanged_observation_is_the_same_under_both_settings() -> None:
    load = seen(Setting(), {}).load
    assert load.scenario(1.0, Setting()) == load.scenario(1.0, replace(Setting(), shed={"q0": 0.5}))

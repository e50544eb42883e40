"""The optimizer's setting in a running engine: which queries it is for, and what policies other than `auto` leave."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from headgate.connectors.registry import connectors
from headgate.control import live_observation, tuning
from headgate.control.live_observation import LiveGraph
from headgate.control.optimizer import Optimizer
from headgate.control.setting import Setting
from headgate.engine.declarations import Declarations
from headgate.engine.live_tuning import LiveTuning
from headgate.engine.metrics import EngineMetrics
from headgate.engine.options import EngineOptions
from headgate.graph.queries import Query
from headgate.runtime.modes import mode_of
from headgate.spark.pace import Pace
from headgate.spark.plan import Plan
from headgate.sql import Catalog
from tests.waiting import wait_until

SCRIPT = """
CREATE STREAM s (a INT, b INT) USING json OPTIONS (path 'unused');
CREATE QUERY q WITH (accuracy = '50%', latency = '1 second') AS SELECT a FROM s WHERE a >= 0;
CREATE QUERY r AS SELECT b FROM s WHERE b > 0;
"""


class Tuned:
    """The live tuning of an engine that is declared and has reported metrics once."""

    def __init__(self) -> None:
        catalog = Catalog(None, "UTC", connectors())
        catalog.execute(SCRIPT)
        self.declared = Declarations(catalog, "auto", None)
        self.metrics = EngineMetrics()
        self.metrics.driver._network = {"operators": [], "queries": {}}
        given: dict[str, Any] = dict.fromkeys(("trigger_cores", "threads", "memory", "dead_letters_folder", "lane_log"))
        options = EngineOptions(
            folder="f", temporary=True, budget=1.0, every=0.0, mode=mode_of("policy"), results=1, **given
        )
        self.tuning = LiveTuning(options, (), self.declared, self.metrics, Pace())
        self.plan()

    def plan(self) -> dict[str, Query]:
        """What runs from now on."""
        self.tuning.follow_policy()
        queries = self.tuning.apply_setting(self.declared.attempted.values(), 1)
        self.tuning.plan_changed(Plan(queries, self.tuning.policy))
        return {query.name: query for query in queries}


@pytest.fixture
def shedding(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An optimizer that sheds half of q at once, and its engine."""
    chosen = Setting(shed={"q": 0.5}, threads=2, aim=0.5)

    def tick(optimizer: Optimizer, seen: Any) -> Setting:
        optimizer.setting = chosen
        return chosen

    monkeypatch.setattr(Optimizer, "tick", tick)
    monkeypatch.setattr(tuning, "EVERY", 0.001)
    tuned = Tuned()

    def apply(setting: Setting) -> None:
        tuned.tuning.take(setting)

    tuned.tuning.start(apply)
    wait_until(lambda: tuned.tuning.setting == chosen)
    yield tuned
    tuned.tuning.close()


def test_a_query_that_is_declared_again_is_not_shed(shedding: Tuned) -> None:
    assert {name: query.shed for name, query in shedding.plan().items()} == {"q": 0.5, "r": 0.0}
    shedding.declared.discard_state("q")
    made = shedding.tuning.apply_setting(shedding.declared.attempted.values(), 1)
    assert all(query.shed == 0 for query in made)


def test_without_auto_nothing_stays_of_what_the_optimizer_has_done(shedding: Tuned) -> None:
    shedding.declared.policy = "cqc"
    assert all(query.shed == 0 for query in shedding.plan().values())
    assert shedding.tuning.setting == Setting()
    assert shedding.tuning.policy == "cqc"
    assert not shedding.tuning.take(Setting(shed={"q": 0.5}, threads=2, aim=0.5)), "it comes too late"
    shedding.declared.policy = "auto"
    wait_until(lambda: shedding.tuning.setting.shed)


def test_rates_are_not_divided_by_a_share_that_is_no_longer_shed() -> None:
    tuned = Tuned()
    tuned.tuning.setting = Setting(shed={"q": 0.5})
    tuned.tuning._made_for = {"q": 0, "r": 0}
    tuned.plan()
    figures: list[Any] = []
    usual = tuned.tuning._shedding.observe
    tuned.tuning._shedding.observe = lambda now, shed: figures.append(shed) or usual(now, shed)  # type: ignore
    tuned.tuning._observe(tuned.tuning.setting)
    tuned.declared.catalog.execute("ALTER QUERY q RESET (accuracy)")
    tuned.plan()
    tuned.tuning._observe(tuned.tuning.setting)
    assert figures == [{"q": 0.5}, {"q": 0.0}]


def test_a_query_that_is_paused_or_has_failed_is_not_modelled() -> None:
    tuned = Tuned()
    seen = tuned.tuning._observe(Setting())
    assert seen is not None
    assert set(seen.demands) == {"q"}
    names = lambda: {q.name for q in tuned.tuning._observe(Setting()).load.scenario(1.0, Setting()).topology.queries}  # type: ignore # noqa: E731
    assert names() == {"q", "r"}
    tuned.metrics.driver._failed["r"] = "no reason"
    assert names() == {"q"}
    tuned.metrics.driver._failed.clear()
    tuned.declared.catalog.pause_query("r")
    tuned.plan()
    assert names() == {"q"}


def test_the_graph_is_made_only_when_a_prediction_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr(live_observation, "topology_of", lambda graph: made.append(1))
    seen = Tuned().tuning._observe(Setting())
    assert seen is not None
    Optimizer(Setting()).tick(seen)
    assert not made
    assert issubclass(LiveGraph, object)
    assert replace(seen, now=time.time()).demands == seen.demands

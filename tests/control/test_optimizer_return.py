"""What the run-time optimizer undoes and forgets: steps after a burst, impossible specs, and queries that are gone."""

from __future__ import annotations

from dataclasses import replace

from headgate.control.impossible import Reachable
from headgate.control.observation import Demand
from headgate.control.setting import AIMS, Setting, Step
from headgate.control.virtual_engine import Alternate
from tests.control.test_optimizer import ONE_CLASS, SINGLE, TWO_CLASSES, Run, constant, demand, run_of


def test_shedding_ends_soon_after_a_burst() -> None:
    """With the default aim of the pauses, latencies are at 85% of what is allowed whenever the network has time."""
    load = {"now": 300.0}
    run = run_of(SINGLE, {"a": 0.005}, {"s": lambda _: load["now"]}, demand(2.0, accuracy=0.4), cores=1)
    run.optimizer._bans = {("pace", "", str(aim)): (1e9, 60.0) for aim in AIMS}
    run.go(60)
    assert run.setting.shed
    assert run.setting.aim == Setting().aim
    load["now"] = 30.0
    run.go(45)
    assert not run.setting.shed
    assert run.missed <= 15, "the rows of the burst"
    run.go(60)
    assert (run.setting, run.missed) == (Setting(), 0)


def test_an_impossible_spec_does_not_stop_help_for_others() -> None:
    """No setting gives results within 10 ms, 20 times less than there is; the other query misses its spec by 10%, and
    another plan is enough."""
    run = run_of(
        TWO_CLASSES,
        {"a": 0.0001, "r": 0.008},
        {"s": 10, "t": 100},
        demand(0.01, cls="critical"),
        demand(0.25, "report", cls="report"),
        setting=Setting(policy="fifo"),
        cores=1,
        plans={"report": {"quick": Alternate({"r": (0.001, 1.0)})}},
    )
    run.go(90)
    assert run.setting.plans == {"report": "quick"}
    seen = run.engine.observe().demands
    assert not seen["report"].missed
    assert seen["alert"].missed
    assert set(run.optimizer.impossible) == {"alert"}


def test_every_impossible_spec_is_said_to_be_so_memory_too() -> None:
    run = run_of(
        TWO_CLASSES,
        {"a": 0.0001, "r": 0.05},
        {"s": 50, "t": 100},
        demand(0.01, cls="critical"),
        demand(None, "report", cls="report", largest=500.0),
        cores=1,
        trigger=0.1,
    )
    run.go(100)
    said = {made.subject: made for made in run.decisions.values() if made.kind == "impossible"}
    assert set(said) == {"alert", "report"}
    assert "bytes" in said["report"].chosen
    found = run.optimizer.impossible["report"]
    assert found.latency is None
    assert found.memory is not None
    assert found.memory > 500.0
    run.engine.demands["report"] = replace(run.engine.demands["report"], largest=1e9)
    run.go(3)
    assert set(run.optimizer.impossible) == {"alert"}


def test_what_an_impossible_demand_may_use() -> None:
    found = Reachable(Demand("q", "c", 1.0, 2.0), 0.0, latency=3.0)
    assert abs(found.limit - 0.65) < 1e-9
    assert found.text == "best reachable: 3 s"
    assert found.near(replace(found, latency=3.3))
    assert not found.near(replace(found, latency=4.0))
    assert not found.near(replace(found, memory=5.0))


# Queries that are gone ----------------------------------------------------------------------------------------


def shedding() -> Run:
    """A run that has shed rows of its query, and changed its plan."""
    plans = {"alert": {"selective first": Alternate({"a": (0.005, 1.0)})}}
    run = run_of(SINGLE, {"a": 0.006}, {"s": 300}, demand(2.0, accuracy=0.4), cores=1, plans=plans)
    run.go(40)
    assert run.setting.shed
    step = Step("plan", "alert", "selective first")
    run.optimizer._taken.append((step, run.setting))
    run.optimizer.setting = step.applied_to(run.setting)
    return run


def test_a_query_that_is_gone_leaves_the_setting() -> None:
    run = shedding()
    seen = run.engine.observe()
    made = run.optimizer.tick(replace(seen, demands={}, queries={}))
    assert (made.plans, made.shed) == ({}, {})
    assert all(step.kind not in ("plan", "shedding") for step, _ in run.optimizer._taken)


def test_a_query_that_is_declared_again_begins_without_steps() -> None:
    run = shedding()
    seen = run.engine.observe()
    made = run.optimizer.tick(replace(seen, queries={"alert": 1}))
    assert (made.plans, made.shed) == ({}, {})


def test_shedding_follows_the_accuracy() -> None:
    run = shedding()
    run.engine.demands["alert"] = demand(2.0, accuracy=0.9)
    made = run.optimizer.tick(run.engine.observe())
    assert made.shed["alert"] <= 0.1 + 1e-9
    assert made.plans
    run.engine.demands["alert"] = demand(2.0)
    assert run.optimizer.tick(run.engine.observe()).shed == {}


# Steps that do nothing ----------------------------------------------------------------------------------------


def test_no_budget_and_no_threads_where_they_do_nothing() -> None:
    run = run_of(SINGLE, {"a": 0.0065}, {"s": 100}, demand(3.2), setting=Setting(policy="fifo", aim=0.0), trigger=1.0)
    seen = run.engine.observe
    run.engine.observe = lambda: _without_budget(seen())  # type: ignore[method-assign]
    run.go(40)
    assert not {"budget", "threads"} & set(run.kinds)


def _without_budget(seen):  # type: ignore[no-untyped-def]
    return replace(seen, load=replace(seen.load, budgeted=False, threaded=False))


def test_replicas_are_processors() -> None:
    run = run_of(ONE_CLASS, {"a": 0.006, "b": 0.006}, {"s": 100, "t": 100}, demand(1.5), cores=1)
    load = run.engine.observe().load
    assert [replace(load, replicas=n).processors(4) for n in (1, 2)] == [1, 2]
    assert constant(1.0)(0) == 1.0

"""Which plan a query begins with, when it changes, and when it keeps its plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headgate.control.operator_figures import OperatorFigures
from headgate.control.plans.alternates import WRITTEN, alternates
from headgate.control.plans.choices import BEFORE, PlanChoices
from headgate.control.plans.early_aggregate import NAME
from headgate.control.plans.ranking import added_cores
from headgate.graph.queries import Query, QueryClass
from headgate.runtime.dataflow import key_of
from headgate.scheduling.decisions import Decision
from tests.control.plans.random_queries import compiled

WIDE = "SELECT window(ts, '2 seconds') AS w, k, count(*) AS n FROM s GROUP BY 1, 2"
NARROW = "SELECT window(ts, '2 seconds') AS w, k, count(*) AS n FROM s WHERE k = 'x' GROUP BY 1, 2"
JOINED = "SELECT window(ts, '2 seconds') AS w, t.region, count(*) AS n FROM s JOIN t ON s.k = t.k GROUP BY 1, 2"
FUNCTIONS = "SELECT ts, a FROM s WHERE odd(a) = 1 AND low(b) < 2"
SHARED = "shared with q0"
HIGH, LOW = QueryClass("high", 5), QueryClass("low", 1)


class Chooser:
    """Choices with their decisions."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.choices = PlanChoices(self.decisions.append, lambda: 1.0)

    def planned(
        self,
        queries: list[Query],
        wanted: dict[str, str] | None = None,
        network: dict[str, Any] | None = None,
        choosing: bool = True,
    ) -> dict[str, Query]:
        found = self.choices.planned(queries, wanted or {}, network or {}, choosing)
        assert [query.name for query in found] == [query.name for query in queries]
        return {query.name: query for query in found}


def measured(**costs: tuple[Query, str, float, float]) -> dict[str, Any]:
    """Metrics of a network with the cost and selectivity of one operator of each query: by a part of its detail."""
    found = []
    for query, part, cost, selectivity in costs.values():
        node = next(node for node in query.plan.walk() if part in node.detail)
        found.append({"key": key_of(node), "cost": cost, "selectivity": selectivity, "rate": 1000.0})
    return {"operators": found}


def test_a_shared_operator_costs_nothing_more() -> None:
    wide, narrow = compiled(WIDE, NARROW)
    plans = alternates(narrow, [wide])
    figures = OperatorFigures({})
    costs = {name: added_cores(plan, set(wide.plan.walk()), figures, {"s": 1000.0}) for name, plan in plans.items()}
    alone = {name: added_cores(plan, set(), figures, {"s": 1000.0}) for name, plan in plans.items()}
    assert costs[SHARED] < 0.5 * costs[WRITTEN]
    assert alone[SHARED] > alone[WRITTEN]


def test_a_query_begins_with_the_aggregate_that_another_runs() -> None:
    wide, narrow = compiled(WIDE, NARROW)
    chooser = Chooser()
    found = chooser.planned([wide, narrow])
    assert wide.plan in found["q1"].plan.walk()
    (made,) = chooser.decisions
    assert (made.kind, made.subject, made.chosen, made.before) == ("plan", "q1", SHARED, WRITTEN)
    assert made.scores[SHARED] < made.scores[WRITTEN]


def test_it_does_not_if_nobody_runs_it_or_only_a_lower_class_does_or_nothing_is_to_be_chosen() -> None:
    wide, narrow = compiled(WIDE, NARROW)
    assert Chooser().planned([narrow])["q1"].plan == narrow.plan
    assert Chooser().planned([wide, narrow], choosing=False)["q1"].plan == narrow.plan
    below = Chooser().planned([replace(wide, cls=LOW), replace(narrow, cls=HIGH)])
    assert below["q1"].plan == narrow.plan
    above = Chooser().planned([replace(wide, cls=HIGH), replace(narrow, cls=LOW)])
    assert above["q1"].plan != narrow.plan


def test_a_shared_plan_stays_when_the_other_query_is_gone() -> None:
    wide, narrow = compiled(WIDE, NARROW)
    chooser = Chooser()
    shared = chooser.planned([wide, narrow])["q1"].plan
    assert chooser.planned([narrow])["q1"].plan == shared
    report = chooser.choices.report("q1")
    assert report is not None
    assert report["running"] == SHARED
    assert "state" in report["others"][WRITTEN]


def test_a_wanted_plan_is_changed_to_and_back() -> None:
    (query,) = compiled(JOINED)
    chooser = Chooser()
    assert chooser.planned([query])["q0"].plan == query.plan
    assert chooser.choices.offered({}) == {"q0": (NAME,)}
    assert chooser.planned([query], {"q0": NAME})["q0"].plan == alternates(query)[NAME]
    assert chooser.planned([query])["q0"].plan == query.plan
    assert not chooser.decisions


def test_a_paused_query_keeps_its_plan() -> None:
    (query,) = compiled(JOINED)
    chooser = Chooser()
    chooser.planned([query])
    paused = replace(query, pause="keep")
    assert chooser.planned([paused], {"q0": NAME})["q0"].plan == query.plan
    assert chooser.choices.offered({}) == {}


def test_a_plan_that_would_lose_state_is_not_changed_to_and_the_reason_is_told() -> None:
    wide, narrow = compiled(WIDE, NARROW)
    chooser = Chooser()
    shared = chooser.planned([wide, narrow])["q1"].plan
    assert chooser.choices.offered({}).get("q1", ()) == ()
    assert chooser.planned([wide, narrow], {"q1": WRITTEN})["q1"].plan == shared


@pytest.mark.parametrize("slow", ["odd", "low"])
def test_a_new_query_begins_with_the_cheaper_function_as_measured_for_another(slow: str) -> None:
    declared, other = compiled(FUNCTIONS, FUNCTIONS.replace("WHERE", "WHERE a >= 0 AND"))
    chooser = Chooser()
    running = chooser.planned([declared])["q0"]
    quick = "low" if slow == "odd" else "odd"
    network = measured(a=(running, f":{slow}", 1e-3, 0.5), b=(running, f":{quick}", 1e-6, 0.5))
    chosen = chooser.planned([declared, other], network=network)["q1"].plan
    chain = [node for node in chosen.walk() if node.python_functions]
    assert any(quick in name for name in chain[0].python_functions)


def test_after_a_restart_a_query_goes_on_with_its_plan_also_if_the_other_query_is_gone() -> None:
    wide, narrow = compiled(WIDE, NARROW)
    before = Chooser().planned([wide, narrow])
    for declared in ([wide, narrow], [narrow]):
        chooser = Chooser()
        chooser.choices.resume(before.values(), {query.name: query for query in declared})
        found = chooser.planned(declared)
        assert found["q1"].plan == before["q1"].plan
        assert not chooser.decisions
        report = chooser.choices.report("q1")
        assert report is not None
        assert report["running"] in (SHARED, BEFORE)


def test_a_plan_of_which_another_query_runs_a_part_with_its_own_state_is_offered_when_that_is_gone() -> None:
    first, second = compiled(JOINED, JOINED)
    chooser = Chooser()
    chooser.planned([first, second], choosing=False)
    assert NAME in chooser.choices.offered({})["q0"]
    chooser.planned([first, second], {"q1": NAME})
    assert NAME not in chooser.choices.offered({})["q0"]
    report = chooser.choices.report("q0")
    assert report is not None
    assert "query q1 runs a part of that plan" in report["others"][NAME]
    assert chooser.planned([first, second], {"q0": NAME, "q1": NAME})["q0"].plan == first.plan
    chooser.planned([first])
    report = chooser.choices.report("q0")
    assert report is not None
    assert report["others"][NAME] is None
    assert NAME in chooser.choices.offered({})["q0"]

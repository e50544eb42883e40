"""Alternate plans: random queries give the same rows under all of them, also if the plan changes on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from headgate.control.plans.alternates import WRITTEN, alternates, named, reason_not_switchable
from headgate.control.plans.early_aggregate import NAME
from tests.control.plans.random_queries import answered, compiled, kinds, network, random_rows, random_select, results

FEW, MANY = range(20), range(20, 200)


def kind_of(name: str) -> str:
    return name if name in (WRITTEN, NAME) else "table" if name in ("t first", "u first") else "function"


@pytest.fixture(scope="module")
def covered() -> Counter[str]:
    return Counter()


@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MANY)])
def test_all_plans_of_a_random_query_give_the_same_rows(seed: int, covered: Counter[str]) -> None:
    random = Random(seed)
    (query,) = compiled(random_select(random))
    rows = random_rows(random)
    expected = results(query, rows)
    plans = alternates(query)
    for name, plan in plans.items():
        assert results(replace(query, plan=plan), rows) == expected, f"{name}: {query.sql}"
        covered[kind_of(name)] += bool(expected)
    changing(query.name, random, covered)


def changing(name: str, random: Random, covered: Counter[str]) -> None:
    """A query whose plan changes after every batch, while rows wait anywhere, answers as if it had not; so does a query
    beside it that has some operators in common with it."""
    (query,) = compiled(random_select(random))
    query = replace(query, name=name)
    rows = random_rows(random)
    plans = list(alternates(query).values())
    beside = replace(query, name="beside", plan=random.choice(plans))
    running = network(replace(query, plan=plans[0]), *([beside] if random.random() < 0.5 else []))
    now = plans[0]
    for batch in rows:
        running.push("s", batch)
        for _ in range(random.randrange(8)):
            running.step()
        then = random.choice(plans)
        assert reason_not_switchable(now, then) is None, query.sql
        if then != now:
            waiting = running.waiting
            if running.queries.get("beside") and any(n.stateful for n in set(then.walk()) & set(beside.plan.walk())):
                with pytest.raises(ValueError, match="with its own state"):
                    running.swap(replace(query, plan=then))
                continue
            running.swap(replace(query, plan=then))
            covered["change with state"] += any(node.stateful for node in then.walk())
            covered["change that keeps rows waiting"] += 0 < running.waiting <= waiting
        now = then
    running.run()
    running.finish()
    running.run()
    for each in running.queries:
        assert answered(running, each) == results(replace(query, name=each), rows), query.sql


def test_the_random_queries_have_plans_of_every_kind(covered: Counter[str]) -> None:
    """Runs after them."""
    if covered:
        changes = ("change with state", "change that keeps rows waiting")
        assert all(covered[kind] >= 1 for kind in (NAME, "table", "function", *changes)), covered


def test_the_most_selective_table_can_be_looked_up_first() -> None:
    (query,) = compiled("SELECT s.ts, t.region, u.name FROM s JOIN t ON s.k = t.k JOIN u ON s.a = u.a AND u.level > 2")
    plans = alternates(query)
    assert list(plans) == [WRITTEN, "u first"]
    first = next(node for node in plans["u first"].walk() if node.kind == "lookup")
    assert first.detail.startswith("u inner")


def test_a_table_whose_key_comes_from_another_is_not_looked_up_before_it() -> None:
    (query,) = compiled("SELECT s.ts, t.region, u.name FROM s JOIN t ON s.k = t.k JOIN u ON t.h = u.a")
    assert list(alternates(query)) == [WRITTEN]


def test_a_condition_that_may_raise_keeps_its_place() -> None:
    select = "SELECT s.ts, u.name FROM s JOIN t ON s.k = t.k JOIN u ON s.a = u.a AND 10 / s.b > u.level"
    (query,) = compiled(select)
    assert list(alternates(query)) == [WRITTEN]


def test_rows_are_aggregated_before_they_meet_a_table() -> None:
    select = "SELECT window(s.ts, '2 seconds') AS w, t.region, avg(s.b) AS m FROM s JOIN t ON s.k = t.k GROUP BY 1, 2"
    (query,) = compiled(select)
    plan = alternates(query)[NAME]
    assert kinds(plan)[-4:] == ["partial", "lookup", "project", "merge"]
    assert reason_not_switchable(query.plan, plan) is None


@pytest.mark.parametrize(
    "select",
    [
        "SELECT window(s.ts, '2 seconds') AS w, sum(t.h) AS n FROM s JOIN t ON s.k = t.k GROUP BY 1",
        "SELECT window(s.ts, '2 seconds') AS w, first(s.a) AS n FROM s JOIN t ON s.k = t.k GROUP BY 1",
        "SELECT t.region, count(*) AS n FROM s JOIN t ON s.k = t.k GROUP BY 1",
        "SELECT window(s.ts, '2 seconds') AS w, sum(10 / s.b) AS n FROM s JOIN t ON s.k = t.k GROUP BY 1",
    ],
    ids=["reads the table", "order of rows", "no window", "may raise"],
)
def test_aggregates_that_need_the_joined_rows_come_after_the_join(select: str) -> None:
    (query,) = compiled(select)
    assert NAME not in alternates(query)


WIDE = "SELECT window(s.ts, '2 seconds') AS w, s.k, count(*) AS n, max(s.a) AS m FROM s WHERE b > 1 GROUP BY 1, 2"
NARROW = (
    "SELECT window(s.ts, '2 seconds') AS w, s.k, count(*) AS n FROM s WHERE b > 1 AND s.k = 'x' GROUP BY 1, 2"
    " HAVING count(*) > 1"
)


@pytest.mark.parametrize("seed", range(3))
def test_a_condition_on_keys_is_applied_to_the_results_of_an_aggregate_that_runs_already(seed: int) -> None:
    wide, narrow = compiled(WIDE, NARROW)
    plan = alternates(narrow, [wide])["shared with q0"]
    assert set(wide.plan.walk()) < set(plan.walk())
    rows = random_rows(Random(seed), batches=12)
    expected = results(narrow, rows)
    assert results(replace(narrow, plan=plan), rows, wide) == expected != Counter()
    assert "state" in str(reason_not_switchable(narrow.plan, plan))


@pytest.mark.parametrize(
    "other",
    [
        WIDE.replace("b > 1", "b > 2"),
        WIDE.replace("'2 seconds'", "'4 seconds'"),
        WIDE.replace("count(*) AS n, ", ""),
        WIDE.replace("s.k,", "s.a,").replace("max(s.a)", "max(s.b)"),
        WIDE + " HAVING count(*) > 1",
    ],
    ids=["other rows", "other windows", "other functions", "other keys", "other groups"],
)
def test_an_aggregate_of_other_rows_is_not_shared(other: str) -> None:
    wide, narrow = compiled(other, NARROW)
    assert list(alternates(narrow, [wide])) == [WRITTEN] or "HAVING" in other
    if "HAVING" in other:
        # The condition on groups is an operator of its own above the aggregate, which can be shared.
        assert "shared with q0" in alternates(narrow, [wide])


def test_a_change_onto_a_state_that_another_query_has_is_refused() -> None:
    select = "SELECT window(s.ts, '2 seconds') AS w, t.region, count(*) AS n FROM s JOIN t ON s.k = t.k GROUP BY 1, 2"
    (query,) = compiled(select)
    early = alternates(query)[NAME]
    other = replace(query, name="other", plan=early)
    running = network(query, other)
    assert "other" in str(reason_not_switchable(query.plan, early, [other]))
    with pytest.raises(ValueError, match="with its own state"):
        running.swap(replace(query, plan=early))


def test_plans_are_known_by_name() -> None:
    (query,) = compiled("SELECT ts, a FROM s WHERE odd(a) = 1 AND low(b) < 2")
    plans = alternates(query)
    (other,) = set(plans) - {WRITTEN}
    assert named(plans, plans[other]) == other
    assert named(plans, query.plan) is None

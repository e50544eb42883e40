"""Plans of queries that change in epochs: state stays, whatever else changes with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headgate.control.plans.alternates import WRITTEN, alternates
from headgate.graph.operators import Operator
from headgate.graph.queries import Query
from tests.spark.epochs_run import Run

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k INT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND) USING rate;
CREATE FUNCTION odd(a INT) RETURNS INT AS 'tests.control.plans.random_queries:odd';
CREATE FUNCTION low(a INT) RETURNS INT AS 'tests.control.plans.random_queries:low';
CREATE QUERY first AS SELECT count(*) AS n FROM s WHERE odd(k) = 1 AND low(k) < 2;
CREATE QUERY second AS SELECT count(*) AS n FROM s WHERE odd(k) = 1 AND low(k) < 2;
"""


class Swaps(Run):
    """Epochs whose plan is given query by query."""

    def plans_of(self, name: str) -> tuple[Operator, Operator]:
        """The plan as written, and another one with the same state."""
        plans = alternates(self.catalog.queries[name])
        (other,) = set(plans) - {WRITTEN}
        return plans[WRITTEN], plans[other]

    def run_with(self, **plans: Operator) -> None:
        queries: tuple[Query, ...] = tuple(
            replace(self.catalog.queries[name], plan=plan) for name, plan in plans.items()
        )
        self.epochs.plan = replace(self.epochs.plan, queries=queries)

    def count(self, name: str) -> int:
        return int(self.results(name)[-1][0])


def test_a_query_changes_to_the_plan_of_one_that_is_dropped_at_the_same_time(tmp_path: Path) -> None:
    run = Swaps(tmp_path, SCRIPT)
    written, other = run.plans_of("first")
    run.run_with(first=written, second=other)
    run.bring("s", (1.0, 1), (2.0, 1))
    assert (run.count("first"), run.count("second")) == (2, 2)
    run.run_with(first=other)
    run.bring("s", (3.0, 1))
    assert run.count("first") == 3


def test_a_query_keeps_its_plan_and_its_state_where_it_cannot_change(tmp_path: Path) -> None:
    """`second` runs the other plan with its own state; when it has gone, `first` changes."""
    run = Swaps(tmp_path, SCRIPT)
    written, other = run.plans_of("first")
    run.run_with(second=other)
    run.bring("s", (0.5, 1))
    run.run_with(first=written, second=other)
    run.bring("s", (1.0, 1), (2.0, 1))
    assert (run.count("first"), run.count("second")) == (2, 3)
    run.run_with(first=other, second=other)
    run.bring("s", (3.0, 1))
    assert (run.count("first"), run.count("second")) == (3, 4)
    run.run_with(first=other)
    run.bring("s", (4.0, 1))
    assert run.count("first") == 4


def test_two_queries_change_places(tmp_path: Path) -> None:
    """Neither can change before the other: both keep their plans."""
    run = Swaps(tmp_path, SCRIPT)
    written, other = run.plans_of("first")
    run.run_with(second=other)
    run.bring("s", (0.5, 1))
    run.run_with(first=written, second=other)
    run.bring("s", (1.0, 1))
    run.run_with(first=other, second=written)
    run.bring("s", (2.0, 1))
    assert (run.count("first"), run.count("second")) == (2, 3)

"""When another placement pays: the decision alone."""

from __future__ import annotations

from typing import Any

from headgate.graph.queries import Query
from headgate.spark.balance import PAUSE, WINDOW, Balance
from headgate.spark.placement import Placement, Route
from headgate.sql import Catalog

STREAMS = 4


def queries() -> tuple[Query, ...]:
    """Queries that cannot be split: one a stream."""
    catalog = Catalog()
    for n in range(STREAMS):
        catalog.execute(f"CREATE STREAM s{n} (k STRING, v INT) USING parquet OPTIONS (path 'unused');")
        catalog.execute(f"CREATE QUERY q{n} AS SELECT sum(v) AS t FROM s{n};")
    return tuple(dict(catalog.queries).values())


def on(*homes: int) -> Placement:
    return Placement(2, {f"q{n}": {f"s{n}": Route.to(home)} for n, home in enumerate(homes)})


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def watch(balance: Balance, clock: Clock, placement: Placement, seconds: float, costs: dict[str, float]) -> None:
    """Reports the metrics of a number of seconds, every second."""
    for _ in range(int(seconds) + 1):
        busy = [0.0] * placement.replicas
        operators: list[dict[str, Any]] = []
        for query, cost in costs.items():
            home = placement.replica_of(query)
            busy[home or 0] += cost * clock.now
            operators.append({"queries": [query], "seconds": cost * clock.now})
        balance.report({"replicas": [{"seconds": each} for each in busy], "operators": operators})
        clock.now += 1.0


def test_a_busy_replica_gives_queries_away() -> None:
    clock = Clock()
    balance, present = Balance(clock), on(0, 0, 1, 1)
    watch(balance, clock, present, WINDOW, {"q0": 0.5, "q1": 0.4, "q2": 0.02, "q3": 0.02})
    found = balance.better(queries(), present)
    assert found is not None
    assert found.replica_of("q0") != found.replica_of("q1")


def test_no_change_before_the_window_is_over() -> None:
    clock = Clock()
    balance, present = Balance(clock), on(0, 0, 1, 1)
    watch(balance, clock, present, WINDOW / 2, {"q0": 0.5, "q1": 0.4})
    assert balance.better(queries(), present) is None


def test_no_change_where_nothing_is_gained() -> None:
    clock = Clock()
    balance, present = Balance(clock), on(0, 1, 1, 1)
    # One query is all the load, and it cannot be split.
    watch(balance, clock, present, WINDOW, {"q0": 0.9, "q1": 0.01, "q2": 0.01, "q3": 0.01})
    assert balance.better(queries(), present) is None


def test_no_change_where_nobody_is_busy() -> None:
    clock = Clock()
    balance, present = Balance(clock), on(0, 0, 1, 1)
    watch(balance, clock, present, WINDOW, {"q0": 0.2, "q1": 0.2})
    assert balance.better(queries(), present) is None


def test_a_second_change_waits() -> None:
    clock = Clock()
    balance, present = Balance(clock), on(0, 0, 1, 1)
    costs = {"q0": 0.5, "q1": 0.4}
    watch(balance, clock, present, WINDOW, costs)
    assert balance.better(queries(), present) is not None
    watch(balance, clock, present, WINDOW, costs)
    assert balance.better(queries(), present) is None
    watch(balance, clock, present, PAUSE, costs)
    assert balance.better(queries(), present) is not None

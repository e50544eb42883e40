"""When another placement pays: the decision alone."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.graph.queries import Query
from headgate.spark.balance import PAUSE, WINDOW, Balance
from headgate.spark.placement import Placement, Route
from headgate.spark.placing import place
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
    assert found.placement.replica_of("q0") != found.placement.replica_of("q1")


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


def test_no_change_for_queries_that_have_ended() -> None:
    clock = Clock()
    balance, present = Balance(clock), on(0, 0, 1, 1)
    for second in range(int(WINDOW) + 1):
        # The replica was busy with a query that the metrics do not have any more.
        operators = [{"queries": ["q2"], "seconds": 0.0}]
        balance.report({"replicas": [{"seconds": 0.9 * second}, {"seconds": 0.0}], "operators": operators})
        clock.now += 1.0
    assert balance.better(queries(), present) is None


def test_the_window_begins_anew_when_a_replica_restarts() -> None:
    """Its counters begin again at zero, while those of the other replica rise by more than it had."""
    clock = Clock()
    balance = Balance(clock)

    def report(seconds: float, before: float) -> None:
        for second in range(int(seconds) + 1):
            busy = {"q0": 0.1 * second, "q2": before + 0.9 * second}
            operators = [{"queries": [name], "seconds": spent} for name, spent in busy.items()]
            balance.report({"replicas": [{"seconds": each} for each in busy.values()], "operators": operators})
            clock.now += 1.0

    report(WINDOW, 1000.0)
    assert balance.costs == pytest.approx({"q0": 0.1, "q2": 0.9})
    report(1, 1030.0)
    assert balance.costs == {}
    report(WINDOW, 1040.0)
    assert balance.costs == pytest.approx({"q0": 0.1, "q2": 0.9})


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


SLOTS = len(Placement(2).table)


def keyed() -> tuple[Query, ...]:
    catalog = Catalog()
    catalog.execute("CREATE STREAM s (k STRING, v INT) USING parquet OPTIONS (path 'unused');")
    catalog.execute("CREATE QUERY q AS SELECT k, sum(v) AS t FROM s GROUP BY k;")
    catalog.execute("CREATE QUERY whole AS SELECT max(v) AS t FROM s WHERE v > 3;")
    return tuple(dict(catalog.queries).values())


def placed_keys(whole: int = 0) -> Placement:
    [[query, routes]] = place(keyed()[:1], 2).routes.items()
    return Placement(2, {query: routes, "whole": {"s": Route.to(whole)}})


def watch_keys(
    balance: Balance, clock: Clock, present: Placement, seconds: float, rows: dict[int, float], whole: float = 0.0
) -> None:
    """As `watch`: a query by key with this work per second and slot, and one that runs whole."""
    for _ in range(int(seconds) + 1):
        busy = [0.0, 0.0]
        busy[present.replica_of("whole") or 0] += whole * clock.now
        for slot, cost in rows.items():
            busy[present.table[slot]] += cost * clock.now
        operators = [
            {"queries": ["q"], "seconds": sum(rows.values()) * clock.now},
            {"queries": ["whole"], "seconds": whole * clock.now},
        ]
        name = present.routes["q"]["s"].local("s")
        key_rows = {name: [1000.0 * rows.get(slot, 0.0) * clock.now for slot in range(SLOTS)]}
        balance.report({"replicas": [{"seconds": each} for each in busy], "operators": operators}, key_rows)
        clock.now += 1.0


def loads_of(found: Placement, rows: dict[int, float]) -> list[float]:
    loads = [0.0, 0.0]
    for slot, cost in rows.items():
        loads[found.table[slot]] += cost
    return [round(load, 6) for load in loads]


def test_keys_move_as_soon_as_they_have_cost_more_than_a_move() -> None:
    """Eleven keys of twenty on one replica, as in the bench; the saturated replica loses a tenth of its time."""
    clock = Clock()
    balance, present = Balance(clock), placed_keys()
    rows = dict.fromkeys([*range(0, 22, 2), *range(1, 19, 2)], 0.09)
    assert loads_of(present, rows) == [0.99, 0.81]
    watch_keys(balance, clock, present, 8, rows)
    assert balance.better(keyed(), present) is None
    watch_keys(balance, clock, present, 5, rows)
    found = balance.better(keyed(), present)
    assert found is not None
    assert loads_of(found.placement, rows) == [0.9, 0.9]
    assert sum(a != b for a, b in zip(found.placement.table, present.table, strict=True)) == 1
    assert found.placement.routes == present.routes


def test_no_keys_move_for_a_small_difference() -> None:
    clock = Clock()
    balance, present = Balance(clock), placed_keys()
    rows = dict.fromkeys(range(SLOTS), 0.007) | {0: 0.04, 2: 0.04}
    watch_keys(balance, clock, present, 10 * PAUSE, rows)
    assert balance.better(keyed(), present) is None


def test_a_hot_key_moves_others_away_once_and_stays() -> None:
    clock = Clock()
    balance, present = Balance(clock), placed_keys()
    rows = {0: 0.7} | dict.fromkeys(range(1, 31), 0.01)
    moves = 0
    for _ in range(40):
        watch_keys(balance, clock, present, WINDOW, rows)
        found = balance.better(keyed(), present)
        if found is not None:
            present, moves = found.placement, moves + 1
            balance.moved(0.3)
    assert moves == 1
    assert loads_of(present, rows) == [0.7, 0.3]
    # Alone from the beginning, nothing can be done.
    alone = Balance(clock)
    watch_keys(alone, clock, placed_keys(), 10 * PAUSE, {0: 0.9})
    assert alone.better(keyed(), placed_keys()) is None


def test_keys_make_room_for_a_query_that_runs_whole() -> None:
    clock = Clock()
    balance, present = Balance(clock), placed_keys(whole=1)
    rows = dict.fromkeys(range(60), 0.01)
    watch_keys(balance, clock, present, WINDOW, rows, whole=0.4)
    found = balance.better(keyed(), present)
    assert found is not None
    assert loads_of(found.placement, rows) == [0.5, 0.1]
    assert found.placement.replica_of("whole") == 1


def test_a_move_that_takes_long_must_pay() -> None:
    clock = Clock()
    balance, present = Balance(clock), placed_keys()
    rows = dict.fromkeys([*range(0, 22, 2), *range(1, 19, 2)], 0.09)
    balance.moved(30.0)
    for _ in range(30):
        watch_keys(balance, clock, present, WINDOW, rows)
        assert balance.better(keyed(), present) is None
    # The difference stays, and after some minutes it has cost as much as two moves.
    changes = 0
    for _ in range(10):
        watch_keys(balance, clock, present, WINDOW, rows)
        changes += balance.better(keyed(), present) is not None
    assert changes == 1


def test_even_keys_stay() -> None:
    clock = Clock()
    balance, present = Balance(clock), placed_keys()
    watch_keys(balance, clock, present, 10 * PAUSE, dict.fromkeys(range(SLOTS), 0.007))
    assert balance.better(keyed(), present) is None

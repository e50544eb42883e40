"""The change of objectives: its verdict, and the rows and intervals of its form on Spark."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.bench.objectives import AFTER, BURST, INTERVAL, MODELS, RATE, WITHIN, Interval, kept_pace, outcome
from headgate.bench.objectives_live import BEFORE, SELECT, WARM_UP, BurstArrivals, _interval
from headgate.graph.shared import SharedGraph
from headgate.runtime import Network
from headgate.sql import Catalog

GONE = Interval(100.0, 100.0)
"""An interval that must not count."""


def run(queue: float) -> list[Interval]:
    """A run in which queues are 10 rows before the change of objectives, and so many from ten intervals after it."""
    before = [GONE] * (BEFORE - AFTER) + [Interval(1.0, 10.0)] * AFTER
    return [*before, *[GONE] * WITHIN, *[Interval(1.5, queue)] * AFTER]


@pytest.mark.parametrize(("queues", "holds"), [((8.0, 9.0), True), ((5.0, 10.0), False), ((5.0, 11.0), False)])
def test_the_verdict_needs_shorter_queues_with_every_seed(queues: tuple[float, ...], holds: bool) -> None:
    found = outcome("objectives-live", "auto", [run(queue) for queue in queues], BEFORE, "")
    assert found.holds == holds
    assert found.measured["queue_change_by_seed"] == pytest.approx([queue / 10 - 1 for queue in queues])
    assert found.measured["delay_change"] == pytest.approx(0.5)
    assert found.measured["queue_change_spread"] > 0
    assert found.marks[0].x == BEFORE * INTERVAL


@pytest.mark.parametrize(("delay", "holds"), [(INTERVAL / 2, True), (2 * INTERVAL, False)])
def test_a_run_on_a_machine_that_is_too_busy_does_not_hold(delay: float, holds: bool) -> None:
    runs = [run(8.0), [Interval(delay, each.queue) for each in run(8.0)]]
    found = kept_pace(outcome("objectives-live", "auto", runs, BEFORE, ""), runs, BEFORE)
    assert found.measured["queue_change_most"] < 0
    assert found.measured["delay_before_most_s"] == delay
    assert found.holds == holds


def test_rows_arrive_in_one_burst_an_interval() -> None:
    blocks = BurstArrivals().blocks(np.random.default_rng(1))
    counts = [len(next(blocks)) for _ in range(round(10 * INTERVAL))]
    for number, count in enumerate(counts):
        expected = BURST if number % INTERVAL == 0 else RATE
        assert abs(count - expected) < 6 * expected**0.5


def test_an_interval_is_measured_by_what_totals_have_grown() -> None:
    before = {"results": 10.0, "delay": 5.0, "queued_rows": 1000.0}
    after = {"results": 30.0, "delay": 15.0, "queued_rows": 3000.0}
    assert _interval(before, after, 4.0) == Interval(0.5, 500.0)
    with pytest.raises(RuntimeError, match="restored in the middle of the run"):
        _interval(after, before, 4.0)


def test_policies_differ_on_the_live_query(monkeypatch: pytest.MonkeyPatch) -> None:
    # Chain must put a queue between the operators: that shortens queues. Rows are measured in small parts of batches.
    now = [0.0]
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    catalog = Catalog()
    catalog.execute("CREATE STREAM readings (ts TIMESTAMP, reading INT, payload STRING) USING json OPTIONS (path 'in')")
    for name in MODELS:
        catalog.execute(f"CREATE FUNCTION {name}(reading INT) RETURNS INT AS 'headgate.bench.objectives_live:{name}'")
    catalog.execute(f"CREATE QUERY found INTO noop AS {SELECT}")
    graph = SharedGraph()
    graph.add(catalog.queries["found"])
    network = Network(graph, "chain", clock=lambda: now[0])
    batch = WARM_UP.to_batches()[0]
    for _ in range(20):
        network.push("readings", batch)
        while network.step():
            pass
    units = [unit["operators"] for unit in network.metrics()["units"]]
    assert [len(operators) for operators in units] == [1, 1], units

"""Runs that end when the highest class has its results (`soon`, `serving`); the next run processes the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.graph.operators import Operator
from headgate.graph.queries import QueryClass
from headgate.operators.batch import Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.runtime import Network
from tests.runtime.plans import CRITICAL, above, columns, graph, query, rows, source


@pytest.fixture
def now() -> list[float]:
    """The time of a network made by `slow_reports`."""
    return [0.0]


Make = Callable[[Operator, Settings], LiveOperator]


def projections_take(seconds: Callable[[Batch], float], now: list[float], monkeypatch: pytest.MonkeyPatch) -> Make:
    """A projection takes so many seconds for a batch; everything else takes no time."""

    def make(node: Operator, settings: Settings) -> LiveOperator:
        made = live(node, settings)
        if node.kind == "project":
            process = made.process

            def slow(port: int, batch: Batch) -> list[Batch]:
                now[0] += seconds(batch)
                return process(port, batch)

            monkeypatch.setattr(made, "process", slow, raising=False)
        return made

    return make


@pytest.fixture
def slow_reports(now: list[float], monkeypatch: pytest.MonkeyPatch) -> Make:
    """A projection takes a tenth of a second for each batch."""
    return projections_take(lambda batch: 0.1, now, monkeypatch)


@pytest.fixture
def rows_cost(now: list[float], monkeypatch: pytest.MonkeyPatch) -> Make:
    """A projection takes a tenth of a millisecond for each row."""
    return projections_take(lambda batch: 1e-4 * batch.rows.num_rows, now, monkeypatch)


@pytest.mark.parametrize("policy", ["cqc", "rr"])
def test_the_rest_waits_for_the_next_run(policy: str, now: list[float], slow_reports: Make) -> None:
    s = source("s")
    network = Network(
        graph(query("alert", above(s, -1), CRITICAL), query("report", columns(s, 1, 2))),
        policy,
        clock=lambda: now[0],
        make=slow_reports,
    )
    for start in range(20):
        network.push("s", rows(5000, start, start * 1000.0))
    report = network.run(10.0, soon=0.02)
    assert sum(result.rows.num_rows for result in network.take("alert")) == 100_000
    assert report.waiting > 0
    assert now[0] < 1.0
    assert network.run(10.0).waiting == 0
    assert sum(result.rows.num_rows for result in network.take("report")) == 100_000


def test_a_run_that_serves_a_stream_ends_with_the_results_of_its_highest_class(
    now: list[float], slow_reports: Make
) -> None:
    """Of three classes over two streams: the highest class that reads the served stream has its results, no more."""
    s, t = source("s"), source("t")
    network = Network(
        graph(
            query("alert", above(t, -1), CRITICAL),
            query("count", above(s, -1), QueryClass("normal", 3)),
            query("report", columns(s, 1, 2), QueryClass("last", 1)),
        ),
        "cqc",
        clock=lambda: now[0],
        make=slow_reports,
    )
    for start in range(20):
        network.push("s", rows(5000, start, start * 1000.0))
    report = network.run(serving=["s"])
    assert sum(result.rows.num_rows for result in network.take("count")) == 100_000
    assert report.waiting > 0
    # Nothing waits for the highest class that reads t: there is nothing to serve.
    assert network.run(serving=["t"]).grants == 0
    assert network.run().waiting == 0
    assert sum(result.rows.num_rows for result in network.take("report")) == 100_000


def test_an_interrupted_run_ends_with_its_train(now: list[float], rows_cost: Make) -> None:
    network = Network(graph(query("report", columns(source("s"), 1, 2))), "cqc", clock=lambda: now[0], make=rows_cost)
    network.push("s", rows(20_000))
    # Its cost is known after some trains.
    network.run(0.5)
    ends = []
    for wanted in (0.003, 0.012, 0.021, 0.04):
        began = now[0]
        network.run(interrupted=lambda: now[0] >= began + wanted)  # noqa: B023 - called in this round only
        ends.append(now[0] - began - wanted)
    # A grant may take 50 ms. A train takes 5 ms, and now and then twice that, to learn its cost.
    assert max(ends) < 0.0105


def test_awaited_rows_do_not_wait_for_the_slice_of_another_class(now: list[float], rows_cost: Make) -> None:
    s, t = source("s"), source("t")
    network = Network(
        graph(query("alert", above(t, -1), CRITICAL), query("report", columns(s, 1, 2))),
        "cqc:k=1s",
        clock=lambda: now[0],
        make=rows_cost,
    )
    network.push("s", rows(100_000))
    network.run(0.5)
    for start in range(3):
        network.push("t", rows(10, start, start * 1000.0))
        began = now[0]
        network.run(serving=["t"])
        assert sum(result.rows.num_rows for result in network.take("alert")) == 10
        assert now[0] == began
        network.run(0.02)


def test_a_changed_plan_does_not_begin_with_long_trains(now: list[float], rows_cost: Make) -> None:
    s = source("s")
    network = Network(graph(query("report", columns(s, 1, 2))), "cqc", clock=lambda: now[0], make=rows_cost)
    network.push("s", rows(100_000))
    network.run(2.0)
    for number, policy in enumerate(("rr", "cqc", "hr")):
        network.add(query(f"q{number}", above(s, 50 + number)))
        network.policy = policy
        began = now[0]
        # The first train, and those that learn from it.
        network.run(interrupted=lambda: now[0] > began)  # noqa: B023 - called in this round only
        assert now[0] - began < 0.0105


@pytest.mark.parametrize("policy", ["cqc", "rr"])
def test_awaited_queries_come_before_the_rest_of_their_class(policy: str, now: list[float], slow_reports: Make) -> None:
    s = source("s")
    reports = [query(f"report{n}", columns(s, *places)) for n, places in enumerate(((1, 2), (2, 1), (1,)))]
    network = Network(
        graph(query("alert", above(s, -1), CRITICAL), *reports), policy, clock=lambda: now[0], make=slow_reports
    )
    network.push("s", rows(10))
    network.run()
    network.add(query("more", columns(s, 2)))
    for start in range(5):
        network.push("s", rows(100, start, start * 1000.0))
    report = network.run(soon=0.0, awaited=["more"])
    assert sum(result.rows.num_rows for result in network.take("alert")) == 510
    assert sum(result.rows.num_rows for result in network.take("more")) == 500
    assert report.waiting > 0
    # The policy goes on where it was.
    assert network.run().waiting == 0
    for each in reports:
        assert sum(result.rows.num_rows for result in network.take(each.name)) == 510


def test_awaited_queries_are_not_waited_for_longer_than_allowed(now: list[float], slow_reports: Make) -> None:
    s = source("s")
    queries = query("alert", above(s, -1), CRITICAL), query("report", columns(s, 1))
    network = Network(graph(*queries), "cqc", clock=lambda: now[0], make=slow_reports)
    network.add(query("more", columns(s, 2)))
    for start in range(20):
        network.push("s", rows(100, start, start * 1000.0))
    network.run(soon=0.0)
    began = now[0]
    network.run(0.0, awaited=["more"], patience=0.25)
    assert 0.2 <= now[0] - began < 0.6
    assert network.run().waiting == 0
    assert sum(result.rows.num_rows for result in network.take("more")) == 2000

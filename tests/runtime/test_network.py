"""Rows in, grants, results out: one thread, every policy, and the metrics."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headgate.operators.batch import Batch
from headgate.operators.stateless import Stateless
from headgate.runtime import Network
from tests.runtime.plans import above, both, columns, graph, query, rows, source
from tests.runtime.small_network import batches, expected, results, small
from tests.runtime.ways import POLICIES


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_gives_the_runner_s_results(policy: str) -> None:
    network = Network(graph(*small()), policy)
    for stream, batch in batches():
        network.push(stream, batch)
    network.finish()
    report = network.run()
    assert report.done
    assert results(network) == expected()
    assert network.memory_bytes == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_network_without_queries_runs(policy: str) -> None:
    network = Network(graph(), policy)
    network.finish()
    assert network.run(1.0, 0.0).done
    assert not network.metrics()["operators"]


def test_given_watermarks_do_not_follow_the_rows() -> None:
    own, given = (Network(graph(*small()), "fifo") for _ in range(2))
    given.given_watermarks = True
    for stream, batch in batches():
        own.push(stream, batch)
        given.push(stream, batch, advance=False)
        given.advance(stream)
    own.run()
    given.run()
    assert own.newest == given.newest != {}
    assert not given.metrics()["watermarks"]
    assert results(given) != results(own)
    given, fresh = Network(graph(*small()), "fifo"), Network(graph(*small()), "fifo")
    given.given_watermarks = True
    for stream, batch in batches():
        before = fresh.newest.get(stream)
        if before is not None:
            given.advance_to(stream, before)
        given.push(stream, batch, advance=False)
        given.advance(stream)
        fresh.push(stream, batch)
    for network in (given, fresh):
        network.finish()
        network.run()
    assert results(given) == results(fresh)


@pytest.mark.parametrize("rows", [1, 7, 100_000])
def test_trains_of_any_length(rows: int) -> None:
    network = Network(graph(*small()), f"rr:rows={rows}")
    for stream, batch in batches():
        network.push(stream, batch)
        network.run()
    network.finish()
    network.run()
    assert results(network) == expected()


def test_a_budget_leaves_the_rest_in_the_queues() -> None:
    network = Network(graph(*small()), "fifo:rows=1")
    for stream, batch in batches():
        network.push(stream, batch)
    report = network.run(0.0)
    assert not report.done
    assert report.grants == 1
    network.finish()
    assert network.run().done
    assert results(network) == expected()


def test_policies_change_while_rows_wait() -> None:
    network = Network(graph(*small()), "rr:rows=3")
    names = iter(POLICIES * 2)
    for stream, batch in batches():
        network.push(stream, batch)
        network.run(0.0)
        network.policy = next(names)
    network.finish()
    network.run()
    assert results(network) == expected()


def test_order_on_an_edge_is_kept() -> None:
    s = source()
    network = Network(graph(query("q", columns(above(above(s, 10), 20), 0))), "mtiq:rows=5")
    for seed in range(5):
        network.push("s", rows(50, seed, seed * 100.0))
    network.run()
    times = [value for r in network.take("q") for value in r.rows.column(0).cast(pa.int64()).to_pylist()]
    assert times == sorted(times)
    assert times


def test_queries_come_and_go_while_rows_wait() -> None:
    s = source()
    network = Network(graph(query("first", columns(above(s, 50), 2))), "fifo")
    network.push("s", rows(100, 1))
    network.run()
    network.push("s", rows(0))
    network.add(query("second", columns(above(s, 50), 1)))
    network.push("s", rows(100, 2, 50.0))
    network.run()
    network.push("s", rows(100, 3, 90.0))
    network.remove("first")
    network.run()
    of = [int((rows(100, seed).column(2).to_numpy() > 50).sum()) for seed in (1, 2, 3)]
    assert sum(r.rows.num_rows for r in network.take("first")) == of[0] + of[1]
    assert sum(r.rows.num_rows for r in network.take("second")) == of[1] + of[2]
    with pytest.raises(KeyError, match="no query named first"):
        network.take("first")
    network.remove("second")
    network.push("s", rows(10))
    assert network.run().done


def test_unknown_streams_are_refused() -> None:
    network = Network(graph(*small()))
    with pytest.raises(KeyError, match="no query reads a stream named x; the streams read are: s, t"):
        network.push("x", rows(1))


def test_metrics_count_rows_and_latency() -> None:
    now = [100.0]
    network = Network(graph(*small()), "cqc", clock=lambda: now[0])
    network.push("s", rows(1000, 1))
    now[0] += 2.0
    network.run()
    figures = network.metrics()
    high = figures["queries"]["high"]
    taken = sum(r.rows.num_rows for r in network.take("high"))
    assert high["rows"] == taken > 0
    assert high["latency"]["mean"] == pytest.approx(2.0)
    assert high["latency"]["p99"] == pytest.approx(2.0, rel=0.05)
    assert figures["classes"]["critical"]["rows"] == taken
    selections = [o for o in figures["operators"] if o["kind"] == "select" and "high" in o["queries"]]
    assert selections[0]["rows_in"] == 1000
    assert selections[0]["rows_out"] == selections[1]["rows_in"]


def test_rows_that_wait_during_an_update_of_the_statistics_count_once() -> None:
    now = [100.0]
    network = Network(graph(query("q", above(source(), 50.0))), "fifo", clock=lambda: now[0])
    network.push("s", rows(1000, 1))
    now[0] += 1.0
    network._state.loop.measurement.update(now[0])
    statistics = network._state.loop.view.statistics
    # The prior of the statistics weighs a little.
    assert 900.0 < statistics.rate[0] < 1000.0
    network.run()
    now[0] += 1.0
    network._state.loop.measurement.update(now[0])
    # No row arrived in this second, and the second before has decayed.
    assert 350.0 < statistics.rate[0] < 500.0
    assert statistics.cost[0] > 0


def test_operators_that_run_often_are_sampled_and_their_time_is_right() -> None:
    now = [100.0]
    read = [0]

    def clock() -> float:
        read[0] += 1
        return now[0]

    class Slow(Stateless):
        def __init__(self, seconds: float) -> None:
            self.seconds = seconds

        def process(self, port: int, batch: Batch) -> list[Batch]:
            now[0] += self.seconds
            return [batch]

    costs = iter((0.0008, 0.0032))
    plan = above(above(source(), -2.0), -1.0)
    network = Network(
        graph(query("q", plan)), "di:sources=queued", clock=clock, make=lambda node, settings: Slow(next(costs))
    )

    def rounds(count: int) -> int:
        before = read[0]
        for _ in range(count):
            network.push("s", rows(10), advance=False)
            network.run()
        return read[0] - before

    first = rounds(400)
    assert rounds(400) < first
    seconds = sorted(operator["seconds"] for operator in network.metrics()["operators"])
    assert seconds == [pytest.approx(0.64, rel=0.02), pytest.approx(2.56, rel=0.02)]
    statistics = network._state.loop.view.statistics
    assert sorted(statistics.cost) == [pytest.approx(8e-5, rel=0.05), pytest.approx(3.2e-4, rel=0.05)]


def test_no_row_overtakes_one_of_another_queue_of_its_unit() -> None:
    s, t = source("s"), source("t")
    seen: list[float] = []

    class Seeing(Stateless):
        def process(self, port: int, batch: Batch) -> list[Batch]:
            seen.append(batch.arrival.first)
            return [batch]

    network = Network(graph(query("q", both(s, t))), "fifo", make=lambda node, settings: Seeing())
    for moment in (1.0, 2.0, 3.0, 4.0):
        network.push("s" if moment < 3.0 else "t", rows(10), moment)
        network.push("t" if moment < 3.0 else "s", rows(10), moment + 0.5)
    network.run()
    assert len(seen) == 8
    assert seen == sorted(seen)

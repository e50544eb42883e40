"""Classes, specs and objectives change while a network runs: state, waiting rows and what was learned stay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.graph.queries import Query
from headgate.graph.specs import Spec
from headgate.runtime import Network
from headgate.scheduling.amos.policy import Amos
from tests.runtime.plans import CRITICAL, above, graph, per_window, query, rows, source, table
from tests.runtime.small_network import batches, expected, results, small


@pytest.mark.parametrize("policy", ["cqc", "chain", "hmts"])
def test_results_are_those_of_a_network_in_which_nothing_changes(policy: str) -> None:
    network = Network(graph(*small()), policy)
    for number, (stream, batch) in enumerate(batches()):
        network.push(stream, batch)
        for _ in range(number % 4):
            network.step()
        changed: Query = replace(network.queries["windows"], spec=Spec(latency=number + 1))
        network.alter(replace(changed, cls=CRITICAL) if number % 2 else changed)
    network.finish()
    network.run()
    assert results(network) == expected()


def test_results_that_wait_for_the_sink_stay() -> None:
    made = query("q", above(source(), -1))
    network = Network(graph(made))
    network.push("s", rows(100))
    network.run()
    network.alter(replace(made, cls=CRITICAL, spec=Spec(latency=1)))
    assert len(table([result.rows for result in network.take("q")])) == 100
    assert network.metrics()["queries"]["q"]["class"] == "critical"
    assert network.metrics()["queries"]["q"]["rows"] == 100


def test_another_plan_is_refused() -> None:
    network = Network(graph(query("q", above(source(), 1))))
    with pytest.raises(ValueError, match="has another plan"):
        network.alter(query("q", above(source(), 2)))


def test_objectives_reach_the_policy_and_scores_stay() -> None:
    now = [0.0]
    network = Network(graph(query("q", per_window(source()))), "cqc:inner=amos", clock=lambda: now[0])
    amos = network.policy.inner  # type: ignore[attr-defined]
    assert isinstance(amos, Amos)
    for number in range(40):
        now[0] += 0.5
        network.push("s", rows(50, number, number * 5.0))
        network.run()
    scored = [amos.score(place) for place in range(len(amos.policies))]
    assert all(score is not None for score in scored)
    measured = amos.state()["scores"]
    network.objectives = {"freshness": 0.4, "queue": 0.6}
    assert amos.spec.weights == {"freshness": 0.4, "queue": 0.6}
    assert amos.state()["scores"] == measured, "the measures of all objectives are kept"
    restored = Network(graph(query("q", per_window(source()))), "cqc:inner=amos", clock=lambda: now[0])
    restored.objectives = {"queue": 1.0}
    saved = network.snapshot()
    saved["operators"], saved["queues"], saved["batches"], saved["outboxes"] = {}, {}, [], {}
    restored.restore(saved)
    assert restored.policy.inner.spec.weights == {"queue": 1.0}, "a restart may bring other objectives"  # type: ignore[attr-defined]
    network.objectives = {}
    assert amos.spec.weights == {"delay": 1.0}


def test_freshness_is_the_age_of_the_oldest_waiting_row() -> None:
    now = [0.0]
    network = Network(graph(query("q", above(source(), 1))), "fifo", clock=lambda: now[0])
    network.push("s", rows(10), arrived=0.0)
    loop = network._state.loop
    loop.scheduler.refresh(2.0)
    loop.scheduler.refresh(5.0)
    assert loop.view.performance.staleness == pytest.approx(2.0 * 2 + 3.0 * 5)


def test_a_spec_sets_the_priority_of_threads_while_the_network_runs() -> None:
    """Under HMTS the query whose rows have waited for most of its latency is answered first, as its spec says now."""
    now = [0.0]
    plans = [query("a", above(source("s"), -1)), query("b", above(source("t"), -1))]
    network = Network(graph(*plans), "hmts:placement=every", clock=lambda: now[0])

    def first() -> str:
        now[0] += 1.0
        for stream in ("s", "t"):
            network.push(stream, rows(10, start=now[0]))
        now[0] += 0.1
        network.step()
        made = [name for name in ("a", "b") if network.take(name)]
        network.run()
        for name in ("a", "b"):
            network.take(name)
        return "".join(made)

    network.alter(replace(plans[1], spec=Spec(latency=200_000)))
    assert first() == "b"
    network.alter(replace(plans[1], spec=Spec(latency=2_000_000)))
    network.alter(replace(plans[0], spec=Spec(latency=150_000)))
    assert first() == "a"
    network.alter(replace(plans[1], spec=Spec(latency=120_000)))
    assert first() == "b"

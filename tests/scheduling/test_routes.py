"""Routes: where rows go under a cut, for both executors; and queues that a new scheduler finds filled."""

from __future__ import annotations

from headgate.scheduling import Cut, Routes, Scheduler, Topology, View, policy

FORK = Topology.of({"a": ["s"], "b": ["a"], "c": ["a"], "d": ["a", "s"]})
"""Edges: 0 s→a, 1 a→b, 2 a→c, 3 a→d, 4 s→d."""


def test_an_edge_is_queued_or_calls_its_consumer() -> None:
    routes = Routes.of(FORK, Cut(frozenset({0, 2})))
    assert routes.direct[0] == ((1, 0), (3, 0))
    assert routes.queued[0] == (2,)
    assert routes.stream_queued["s"] == (0,)
    assert routes.stream_direct["s"] == ((3, 1),)


def test_consumers_are_called_in_the_order_of_the_cut() -> None:
    assert Routes.of(FORK, Cut(frozenset({0, 4}), order=(3, 1, 2))).direct[0] == ((3, 0), (1, 0), (2, 0))


def test_a_new_scheduler_drains_filled_queues_that_its_cut_does_not_have() -> None:
    view = View.of(Topology.of({"a": ["s"], "b": ["a"]}))
    view.queues.rows[1] = 5
    view.queues.oldest[1] = 0.0
    scheduler = Scheduler(policy("di:sources=queued"), view)
    assert scheduler.changing
    grant = scheduler.next(0.0)
    assert grant is not None
    assert scheduler.units[grant.unit].entries == (1,)
    view.queues.rows[1] = 0
    scheduler.finished(grant.unit, 1.0, 1.0, 5, 0)
    assert scheduler.next(1.0) is None
    assert not scheduler.changing
    assert scheduler.units.cut.queued == {0}

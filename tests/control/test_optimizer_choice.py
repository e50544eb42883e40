"""Steps that the run-time optimizer must not take because a cheaper one, or the right one, is enough."""

from __future__ import annotations

from tests.control.test_optimizer import TWO_CLASSES, demand, run_of


def test_no_second_thread_where_a_larger_share_is_enough() -> None:
    """A second core is free, but costs processor time."""
    run = run_of(TWO_CLASSES, {"a": 0.005, "r": 0.02}, {"s": 150, "t": 100}, demand(2.0, cls="critical"), cores=2)
    run.go(120)
    assert run.kinds[0] == "class share"
    assert set(run.kinds) <= {"class share", "pace"}
    assert run.setting.threads == 1
    run.go(30)
    assert run.missed == 0

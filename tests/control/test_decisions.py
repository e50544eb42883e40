"""The decisions of an engine: each once, in order, with what came of it, and not more than are kept."""

from __future__ import annotations

from headgate.control.decisions import DecisionHistory
from headgate.scheduling.decisions import DecisionLog


def test_decisions_of_all_replicas_and_of_the_optimizer_are_in_order_of_time() -> None:
    history = DecisionHistory()
    first, second, own = DecisionLog(), DecisionLog(), DecisionLog()
    first.add(2.0, "policy", "critical", "chain", "fifo", "the best score")
    second.add(1.0, "policy", "critical", "hr", "fifo", "not run yet")
    history.reported({**each, "replica": 0} for each in first.plain())
    history.reported({**each, "replica": 1} for each in second.plain())
    history.add(own.add(3.0, "pace", "", "no pause", "1 s", "latency is missed"))
    assert [each["at"] for each in history.all()] == [1.0, 2.0, 3.0]
    assert history.last is not None
    assert history.last["kind"] == "pace"


def test_a_decision_that_is_reported_again_is_the_same_with_what_came_since() -> None:
    history, log = DecisionHistory(), DecisionLog()
    log.add(1.0, "policy", "critical", "chain", "fifo", "the best score", expected={"score": 1.2})
    history.reported(log.plain())
    assert log.last is not None
    log.last.measured({"reward": 1.0})
    log.last.measured({"reward": 0.5})
    history.reported(log.plain())
    (only,) = history.all()
    assert only["came"] == {"reward": 0.75}
    assert only["intervals"] == 2


def test_only_the_newest_are_kept() -> None:
    history, log = DecisionHistory(kept=20), DecisionLog(kept=5)
    for moment in range(200):
        log.add(float(moment), "policy", "", "chain", "fifo", "")
        history.reported(log.plain())
    assert len(log) == 5
    assert 20 <= len(history.all()) <= 22
    assert history.all()[-1]["at"] == 199.0

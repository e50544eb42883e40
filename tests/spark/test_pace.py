"""The pace of epochs in virtual time: pauses follow from a latency spec, or from the cores that triggers may take."""

from __future__ import annotations

import pytest

from headgate.spark.pace import LONGEST, WARM_UP, LatencyTarget, Pace, TriggerCost


class Triggers:
    """Triggers of one lane in virtual time, one after the other; rows are always there."""

    def __init__(
        self, cores: float | None = 0.5, cost: float = 0.15, epoch: float = 0.08, per_row: float = 0.0
    ) -> None:
        self.now = 100.0
        self._spent = 0.0
        self.cost, self.epoch, self.per_row = cost, 0.08, per_row
        self.look, self.publish = 0.03, 0.005
        self.rate = 2000.0
        self.processor = 0.0
        self.number = 0
        self.waited: list[float] = []
        self.latencies: list[float] = []
        self.pace = Pace(cores, self._use, lambda: self.now)

    def _use(self) -> float:
        spent, self._spent = self._spent, 0.0
        return spent

    def run(self, seconds: float) -> tuple[float, float]:
        """Triggers for so many seconds; returns the cores that they took, and the last pause."""
        began, processor = self.now, self.processor
        looked = self.now
        pause = 0.0
        while self.now < began + seconds:
            before, looked = looked, self.now
            self.now += self.look
            self.waited.append(self.pace.begin("main"))
            rows = int(self.rate * (looked - before))
            cost = self.cost + self.per_row * rows
            self.now += self.epoch + self.per_row * rows
            self._spent += cost
            self.processor += cost
            self.pace.committed(self.number, rows, self.epoch, 0.0)
            self.now += self.publish
            self.pace.published(self.number)
            # The slowest row arrived just after the look before.
            self.latencies.append(self.now - before)
            self.number += 1
            pause = self.pace.end("main")
            self.now += pause
            self.pace.release("main")
        return (self.processor - processor) / (self.now - began), pause


def test_without_a_spec_triggers_take_half_a_core() -> None:
    triggers = Triggers()
    triggers.run(20)
    cores, _ = triggers.run(60)
    assert cores == pytest.approx(0.5, abs=0.03)
    assert "at most 0.5 cores" in triggers.pace.report()["reason"]
    assert triggers.pace.report()["trigger_cores"] == pytest.approx(0.5, abs=0.05)


def test_without_a_spec_and_a_limit_there_is_no_pause() -> None:
    triggers = Triggers(cores=None)
    assert triggers.run(60)[0] > 1.0
    assert triggers.run(10)[1] == 0.0


def test_a_loose_latency_lets_rows_wait_and_keeps_the_target() -> None:
    triggers = Triggers()
    triggers.pace.arrange("main", 1.0, LatencyTarget(2.0, "fire"))
    triggers.run(20)
    triggers.latencies.clear()
    cores, pause = triggers.run(60)
    assert cores < 0.12
    assert pause > 1.4
    assert max(triggers.latencies) <= 2.0
    assert "query fire" in triggers.pace.report()["reason"]


def test_a_target_that_triggers_hardly_reach_gets_no_pause() -> None:
    triggers = Triggers()
    triggers.pace.arrange("main", 1.0, LatencyTarget(0.1, "fire"))
    assert triggers.run(20)[1] == 0.0


def test_slower_triggers_shorten_the_pause() -> None:
    triggers = Triggers()
    triggers.pace.arrange("main", 1.0, LatencyTarget(2.0, "fire"))
    _, before = triggers.run(60)
    triggers.epoch = 0.5
    triggers.run(10)
    triggers.latencies.clear()
    _, after = triggers.run(60)
    assert after < before - 0.6
    assert max(triggers.latencies) <= 2.0


def test_more_rows_are_no_reason_to_pause() -> None:
    """A source that alone needs more than the limit: longer pauses would not save anything."""
    triggers = Triggers(per_row=0.0004)  # 0.8 cores for the rows
    triggers.run(60)
    _, pause = triggers.run(60)
    assert pause < LONGEST / 2


def test_the_first_rows_after_a_quiet_time_do_not_wait() -> None:
    triggers = Triggers()
    assert triggers.run(60)[1] > 0
    triggers.now += 10
    assert triggers.run(0.1)[1] == 0.0
    # Rows arrived when Spark looked, not when it last found some.
    assert triggers.waited[-1] == 0.0


def test_slow_epochs_count_for_seconds_however_many_quick_ones_follow() -> None:
    """Four epochs a second: slow ones of ten seconds ago are not among the last 32, but tell how late results are."""
    triggers = Triggers()
    triggers.pace.arrange("main", 1.0, LatencyTarget(0.4, "fire"))
    triggers.run(20)
    _, usual = triggers.run(1)
    triggers.epoch = 0.14
    triggers.run(0.5)
    triggers.epoch = 0.08
    _, careful = triggers.run(11)
    assert careful < usual - 0.1
    _, after = triggers.run(20)
    assert after == pytest.approx(usual)


def test_the_first_epochs_of_a_run_are_not_paused() -> None:
    triggers = Triggers(cost=3.0)
    for _ in range(WARM_UP):
        assert triggers.run(0.01)[1] == 0.0


def test_rows_wait_for_the_epoch_before_theirs_and_its_pause() -> None:
    triggers = Triggers()
    triggers.pace.arrange("main", 1.0, LatencyTarget(2.0, "fire"))
    _, pause = triggers.run(60)
    assert triggers.waited[-1] == pytest.approx(pause + triggers.epoch + triggers.look + triggers.publish, rel=0.05)


def test_the_cost_of_a_trigger_is_told_from_that_of_rows() -> None:
    cost = TriggerCost()
    for rows in (10, 1000, 400, 5000, 200, 3000):
        cost.add(rows, 0.1 + rows * 1e-4)
    assert cost.seconds == pytest.approx(0.1, rel=0.1)
    same = TriggerCost()
    for _ in range(5):
        same.add(1000, 0.2)
    assert same.seconds == pytest.approx(0.2)


def test_a_lower_class_gives_way_in_proportion_to_its_weight() -> None:
    triggers = Triggers(cores=None)
    triggers.pace.arrange("main", 1 / 6, None)
    _, pause = triggers.run(20)
    assert pause == pytest.approx(5 * (triggers.epoch + triggers.publish))
    # A long epoch has many rows, and more may wait: they are fetched at once.
    triggers.epoch = 0.5
    _, pause = triggers.run(1)
    assert pause == 0.0

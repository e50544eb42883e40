"""The driver's loop alone: messages in order, lanes that fail, changes between epochs, and the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from headgate.spark.commit import Commit
from headgate.spark.driver import Driver, EngineStopping
from headgate.spark.epochs import CatalystError, Epochs
from headgate.spark.lane import Lane, LaneBatch, LaneClosed
from headgate.spark.lanes import Lanes
from headgate.spark.plan import Plan
from tests.waiting import wait_until

LIMIT = 60.0
WEIGHTS = {"critical": 6.0, "report": 1.0}


def lane(name: str, careful: bool = False) -> Lane:
    return Lane(name, f"{name}@1", None, careful, "unused", lambda _: None, lambda *_: None)


class Packing:
    extra = ("a column that Catalyst computes",)


class FakeEpochs:
    """Does what `act` says for each batch."""

    def __init__(self, act: Callable[[LaneBatch], None]) -> None:
        self._act = act
        self.done: list[str] = []
        self.waiting = 0
        self.backlog_due = False
        self.follow_up = False
        self.change_pending = False
        self.idle_wait: float | None = None
        self.commit = Commit(0)
        self.preparation_changed = False
        self.plan: Any = None
        self.closed = threading.Event()

    def run_batch(self, batch: LaneBatch) -> None:
        self._act(batch)
        self.done.append(f"{batch.lane.name} {batch.batch}")

    def run_backlog(self, *, finish: bool = False) -> None:
        self.done.append("finish" if finish else "backlog")
        self.waiting = 0
        self.backlog_due = self.change_pending = False

    def close(self) -> None:
        self.closed.set()


class FakeLanes:
    """Records what the loop asks of it. One lane, `main`."""

    def __init__(self) -> None:
        self.main = lane("main")
        self.calls: list[str] = []
        self.all_ended = False
        self.delivering = False

    def start(self, preparation: object, *, once: bool) -> None:
        self.calls.append(f"start once={once}")

    def apply(self, preparation: object) -> None:
        self.calls.append("apply")

    def saved(self) -> None: ...

    def restore(self, saved: None) -> None:
        self.calls.append("restore")

    def restart(self, name: str, preparation: object, *, careful: bool) -> None:
        self.calls.append(f"restart careful={careful}")
        self.main = lane(name, careful)

    def running(self, given: Lane) -> bool:
        return given is self.main

    def end(self, given: Lane) -> None:
        self.all_ended = True

    def stop(self) -> None:
        self.calls.append("stop")

    def weights(self, lanes: Iterable[str]) -> dict[str, float]:
        return {name: WEIGHTS.get(name, 1.0) for name in lanes}


class Loop:
    """A loop over fakes."""

    def __init__(self, act: Callable[[LaneBatch], None] = lambda _: None, once: bool = False) -> None:
        self.epochs, self.lanes = FakeEpochs(act), FakeLanes()
        self.over = threading.Event()
        self.driver = Driver(cast(Epochs, self.epochs), lambda _: cast(Lanes, self.lanes), "checkpoint", self.over.set)
        plan = Plan((), "fifo", packings=cast(Any, {"main@1": Packing()}))
        self.driver.replan(lambda _: plan)
        self.driver.start(once=once)

    def batch(self, number: int) -> LaneBatch:
        found = LaneBatch(self.lanes.main, number, None)
        self.driver.deliver(found)
        return found

    def flush(self) -> None:
        """Returns when all earlier messages are done."""
        self.driver.change(lambda: None)


def test_batches_and_changes_are_taken_in_order() -> None:
    loop = Loop()
    first = loop.batch(0)
    loop.driver.change(lambda: loop.epochs.done.append("change"))
    loop.batch(1).done.result(LIMIT)
    assert first.done.done()
    assert loop.epochs.done == ["main 0", "change", "main 1"]
    loop.driver.stop()
    assert loop.over.is_set()
    assert loop.driver.failure is None


def test_the_batch_of_the_highest_class_is_taken_first() -> None:
    begun, proceed = threading.Event(), threading.Event()

    def act(batch: LaneBatch) -> None:
        begun.set()
        proceed.wait(LIMIT)

    loop = Loop(act)
    lanes = {name: lane(name) for name in WEIGHTS}
    first = loop.batch(0)
    assert begun.wait(LIMIT)
    waiting = [LaneBatch(lanes[name], 0, None) for name in ("report", "critical")]
    for batch in waiting:
        loop.driver.deliver(batch)
    proceed.set()
    for batch in (first, *waiting):
        batch.done.result(LIMIT)
    assert loop.epochs.done == ["main 0", "critical 0", "report 0"]
    loop.driver.stop()


def test_the_error_of_a_change_is_the_callers() -> None:
    loop = Loop()
    with pytest.raises(ZeroDivisionError):
        loop.driver.change(lambda: 1 // 0)
    loop.batch(0).done.result(LIMIT)
    loop.driver.stop()


def test_a_batch_on_which_spark_fails_is_read_again_by_a_careful_lane() -> None:
    def act(batch: LaneBatch) -> None:
        if not batch.lane.careful:
            raise CatalystError("to_date")

    loop = Loop(act)
    failed = loop.batch(0)
    assert isinstance(failed.done.exception(LIMIT), CatalystError)
    loop.driver.ended(loop.lanes.main, CatalystError("to_date"))
    loop.flush()
    assert loop.lanes.main.careful
    loop.batch(0).done.result(LIMIT)
    loop.flush()
    assert [call for call in loop.lanes.calls if "restart" in call] == ["restart careful=True", "restart careful=False"]
    loop.driver.stop()


def test_a_lane_that_was_replaced_may_end() -> None:
    loop = Loop()
    loop.driver.ended(lane("main"), RuntimeError("stopped in the middle of a batch"))
    loop.batch(0).done.result(LIMIT)
    loop.driver.stop()
    assert loop.driver.failure is None


def test_a_lane_is_restarted_after_a_lost_worker_and_not_after_another_error() -> None:
    loop = Loop()
    loop.driver.ended(
        loop.lanes.main, RuntimeError("org.apache.spark.SparkException: Python worker exited unexpectedly")
    )
    loop.flush()
    assert "restart careful=False" in loop.lanes.calls
    # First it may be the expression of a query; a careful lane that fails, too, ends the engine.
    loop.driver.ended(loop.lanes.main, RuntimeError("no such topic"))
    loop.flush()
    assert loop.lanes.main.careful
    loop.driver.ended(loop.lanes.main, RuntimeError("no such topic"))
    assert loop.driver.wait(LIMIT)
    assert "no such topic" in str(loop.driver.failure)
    assert loop.lanes.calls[-1] == "stop"


def test_rows_left_waiting_get_epochs_of_their_own() -> None:
    came = threading.Event()

    def act(batch: LaneBatch) -> None:
        loop.epochs.waiting, loop.epochs.backlog_due = 5, True

    loop = Loop(act)
    backlog = loop.epochs.run_backlog
    loop.epochs.run_backlog = lambda **given: (backlog(**given), came.set())  # type: ignore[method-assign, assignment]
    loop.batch(0).done.result(LIMIT)
    assert came.wait(LIMIT)
    assert loop.epochs.done == ["main 0", "backlog"]
    loop.driver.stop()


def test_once_ends_with_the_streams() -> None:
    loop = Loop(once=True)
    loop.batch(0).done.result(LIMIT)
    loop.driver.ended(loop.lanes.main, None)
    assert loop.driver.wait(LIMIT)
    assert loop.epochs.done == ["main 0", "finish"]


def test_stop_cancels_an_epoch_that_does_not_end() -> None:
    def hang(batch: LaneBatch) -> None:
        loop.epochs.closed.wait(LIMIT)
        raise RuntimeError("cancelled")

    loop = Loop(hang)
    stuck, waiting = loop.batch(0), loop.batch(1)
    loop.driver.stop()
    assert loop.epochs.closed.is_set()
    assert stuck.done.exception(LIMIT) is not None
    assert isinstance(waiting.done.exception(LIMIT), LaneClosed)


def test_changes_do_not_wait_for_an_epoch_that_outlasts_the_engine() -> None:
    """A table that is refreshed waits for the epoch, and `stop` for the thread that refreshes it."""
    running, proceed = threading.Event(), threading.Event()

    def hang(batch: LaneBatch) -> None:
        running.set()
        proceed.wait(LIMIT)

    loop = Loop(hang)
    loop.batch(0)
    assert running.wait(LIMIT)
    done: list[str] = []
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(loop.driver.change, lambda: done.append("changed"))
        wait_until(lambda: len(loop.driver._awaited) == 1)
        loop.driver.request_stop()
        with pytest.raises(EngineStopping):
            waiting.result(LIMIT)
    assert not loop.over.is_set()
    with pytest.raises(EngineStopping):
        loop.driver.change(lambda: done.append("changed"))
    proceed.set()
    loop.driver.stop()
    assert done == []
    loop.driver.change(lambda: done.append("after the end"))
    assert done == ["after the end"]


def test_a_change_that_times_out_itself_raises_once() -> None:
    loop = Loop()

    def late() -> None:
        raise TimeoutError("the table did not answer")

    with pytest.raises(TimeoutError, match="the table did not answer"):
        loop.driver.change(late)
    loop.driver.stop()


def test_batches_of_a_closed_lane_are_refused() -> None:
    loop = Loop()

    def close() -> tuple[LaneBatch, LaneBatch]:
        found = loop.batch(0), LaneBatch(lane("other"), 0, None)
        loop.driver.deliver(found[1])
        loop.driver.refuse(found[0].lane)
        return found

    closed, other = loop.driver.change(close)
    assert isinstance(closed.done.exception(LIMIT), LaneClosed)
    other.done.result(LIMIT)
    assert loop.epochs.done == ["other 0"]
    loop.driver.stop()


def test_a_change_that_no_commit_names_gets_an_epoch_also_at_the_end() -> None:
    loop = Loop()
    loop.epochs.change_pending = loop.epochs.backlog_due = True
    loop.flush()
    loop.batch(0).done.result(LIMIT)
    assert "backlog" in loop.epochs.done
    loop.driver.change(lambda: setattr(loop.epochs, "change_pending", True))
    loop.driver.stop()
    assert loop.epochs.done[-1] == "backlog", "a restart must know the change"


def test_a_lane_that_others_stop_ends_the_loop_with_a_line() -> None:
    loop = Loop()
    loop.driver.ended(loop.lanes.main, None)
    assert loop.driver.wait(LIMIT)
    assert "lane main was stopped from outside" in str(loop.driver.failure)

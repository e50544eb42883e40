"""Which operator is to blame for the death of a process, from what ran when it died."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headgate.operators.contract import Snapshot
from headgate.runtime.state_parts import StateParts
from headgate.runtime.store import Folder
from headgate.spark.flight_record import RunningStage, SharedFlightRecord
from headgate.spark.messages import BLAMED
from headgate.spark.verdicts import STRIKES, Death, Verdicts

CRASH = Death.of(11)
KILLED = Death.of(9)


def function(stage: int, unit: int = 99) -> RunningStage:
    return RunningStage(unit, stage, 0.0, 30.0)


def unit(stage: int) -> RunningStage:
    return RunningStage(stage, 0, 0.0, 0.0)


def convicted(verdicts: Verdicts) -> set[tuple[int, bool]]:
    return {(int(each.stage, 16), each.function) for each in verdicts.pending}


@pytest.mark.parametrize(
    ("running", "guilty"),
    [
        ([function(5)], {(5, True)}),
        ([function(5), unit(7), unit(8)], {(5, True)}),
        ([unit(7)], {(7, False)}),
        ([], set()),
        ([function(5), function(6)], set()),
        ([unit(7), unit(8)], set()),
    ],
)
def test_a_crash_is_the_fault_of_the_only_one_that_ran(
    running: list[RunningStage], guilty: set[tuple[int, bool]]
) -> None:
    verdicts = Verdicts()
    verdicts.died(CRASH, running)
    assert convicted(verdicts) == guilty
    assert verdicts.single_thread == (len(running) > 1 and not guilty)
    assert (BLAMED in verdicts.last_death) == bool(guilty)


def test_only_functions_over_their_time_are_to_blame() -> None:
    verdicts = Verdicts()
    verdicts.died(Death("time", "too long", "", frozenset({5})), [function(5), function(6)])
    assert convicted(verdicts) == {(5, True)}


def test_a_kill_from_outside_is_nobodys_fault_until_it_repeats() -> None:
    verdicts = Verdicts()
    for _ in range(STRIKES - 1):
        verdicts.died(KILLED, [function(5), function(6)])
        assert not verdicts.pending
    # Another one ran: it begins again.
    verdicts.died(KILLED, [function(7)])
    assert not verdicts.pending
    for _ in range(STRIKES - 2):
        verdicts.died(KILLED, [function(7), function(8)])
    verdicts.answered(3, 2)
    for _ in range(STRIKES - 1):
        verdicts.died(KILLED, [function(7)])
        assert not verdicts.pending
    verdicts.died(KILLED, [function(7), unit(1)])
    assert convicted(verdicts) == {(7, True)}


def test_memory_is_the_fault_of_those_that_ran_while_it_grew() -> None:
    verdicts = Verdicts()
    verdicts.died(Death("memory", "too much", "", frozenset({5})), [function(5), function(6)])
    assert convicted(verdicts) == {(5, True)}
    verdicts = Verdicts()
    for strike in range(STRIKES):
        assert not verdicts.pending, strike
        verdicts.died(Death("memory", "too much", ""), [function(6)])
    assert convicted(verdicts) == {(6, True)}


def test_memory_that_is_kept_is_the_fault_of_the_largest_state() -> None:
    verdicts = Verdicts()
    verdicts.died(Death("memory", "holds a state of 9 GB", "", frozenset({5}), function=False), [])
    assert convicted(verdicts) == {(5, False)}
    assert BLAMED in verdicts.last_death


def test_a_state_that_is_saved_or_restored_is_recorded() -> None:
    # Of the process that saves, and of the one that restores.
    records = SharedFlightRecord(), SharedFlightRecord()
    seen: list[int] = []

    class Live:
        state_bytes = 1_000

        def snapshot(self) -> Snapshot:
            seen.extend(each.unit for each in records[0].running())
            return Snapshot({"part": pa.table({"x": [1]})}, {})

        def restore(self, snapshot: Snapshot) -> None:
            seen.extend(each.unit for each in records[1].running())

    stage: Any = SimpleNamespace(key="0000000000000007", live=Live())
    memory: Any = SimpleNamespace(store=Folder())
    saved = StateParts(memory, records[0]).save([stage])
    StateParts(memory, records[1]).load(stage, saved[stage.key])
    assert seen == [7, 7]
    for record in records:
        assert record.largest_state == (7, 1_000)
        assert not record.running()
    records[0].clear()
    assert records[0].largest_state == (0, 0)


def test_a_verdict_is_kept_until_its_epoch_is_committed() -> None:
    verdicts = Verdicts()
    verdicts.died(CRASH, [function(5)])
    # Repeated and answered twice, then committed.
    for epoch, after, kept in [(4, 3, 1), (4, 3, 1), (5, 4, 0)]:
        verdicts.answered(epoch, after)
        assert len(verdicts.pending) == kept


def test_the_reason_can_be_read() -> None:
    assert Death.of(3 << 8) == Death("exit", "ended the process (exit code 3)", "it ended with exit code 3")
    assert Death("crash", "crashed the process (signal SEGV)", "it crashed (signal SEGV)") == CRASH
    assert KILLED.text == "it was killed (signal KILL)"


def test_the_record_shows_what_each_thread_runs_and_reuses_slots() -> None:
    record = SharedFlightRecord()
    both = threading.Barrier(3)

    def work(mark: int) -> None:
        slot = record.slot()
        assert record.slot() is slot
        slot[0] = mark
        both.wait()
        both.wait()
        slot[0] = 0

    for _ in range(3):
        threads = [threading.Thread(target=work, args=(mark,)) for mark in (1, 2)]
        for thread in threads:
            thread.start()
        both.wait()
        assert sorted(each.unit for each in record.running()) == [1, 2]
        both.wait()
        for thread in threads:
            thread.join()
        assert not record.running()
    assert record._words[0] == 2, "slots of threads that ended are used again"

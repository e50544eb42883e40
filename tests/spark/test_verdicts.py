"""Which operator is to blame for the death of a process, from what ran when it died."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headgate.operators.contract import Snapshot
from headgate.runtime.state_parts import StateParts
from headgate.runtime.store import Folder
from headgate.spark.fitness import CLOSED, UNFIT
from headgate.spark.flight_record import RunningStage, SharedFlightRecord
from headgate.spark.messages import BLAMED
from headgate.spark.verdicts import LEAST_TOLL, STRIKES, Death, Verdicts

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


UNFIT_DEATH = Death.unfit("Too many open files")


def test_an_unfit_process_is_the_fault_of_the_one_that_took_most() -> None:
    verdicts = Verdicts()
    # Nothing was measured in the first process.
    verdicts.died(UNFIT_DEATH, [function(7)])
    assert not verdicts.pending
    assert verdicts.measured
    assert verdicts.single_thread
    verdicts.died(UNFIT_DEATH, [function(7)], {6: 3, 5: LEAST_TOLL, 7: -4})
    assert convicted(verdicts) == {(5, True)}
    assert BLAMED in verdicts.last_death


def test_if_no_function_took_much_an_unfit_process_is_nobodys_fault_until_it_repeats() -> None:
    verdicts = Verdicts()
    for _ in range(2 * STRIKES):
        verdicts.died(UNFIT_DEATH, [], {5: 2, 6: 1})
        verdicts.answered(3, 2)
        assert not verdicts.pending
        assert verdicts.measured
        assert not verdicts.single_thread
    for strike in range(STRIKES):
        assert not verdicts.pending, strike
        verdicts.died(UNFIT_DEATH, [], {5: 2, 6: 1})
    assert convicted(verdicts) == {(5, True)}


def test_a_supervisor_that_is_killed_again_and_again_is_the_fault_of_what_ran_each_time() -> None:
    verdicts = Verdicts()
    for strike in range(STRIKES):
        assert not verdicts.pending, strike
        verdicts = Verdicts.of(verdicts.state)
        verdicts.died(Death.with_supervisor(), [function(5)], {6: LEAST_TOLL})
    assert convicted(verdicts) == {(5, True)}
    assert verdicts.pending[0].reason == "killed the supervisor of its process"


def test_what_a_supervisor_knows_is_known_to_the_next_one(tmp_path: Path) -> None:
    before = SharedFlightRecord(tmp_path / "record")
    assert not before.left
    assert Verdicts.of(before.notes).state == Verdicts().state
    verdicts = Verdicts()
    verdicts.died(UNFIT_DEATH, [function(7)])
    verdicts.died(CRASH, [function(5)])
    verdicts.answered(3, 2)
    before.slot()[1] = 5
    before.add_toll(5, 9)
    before.add_toll(6, -2)
    before.add_toll(5, -1)
    before.notes = verdicts.state
    after = SharedFlightRecord(tmp_path / "record")
    assert after.left
    assert [each.stage for each in after.running()] == [5]
    assert after.tolls == {5: 8, 6: -2}
    assert Verdicts.of(after.notes).state == verdicts.state
    assert Verdicts.of(after.notes).pending == verdicts.pending
    after.clear()
    assert not after.running()
    assert not after.tolls
    assert after.notes == verdicts.state
    after.remove()
    assert not SharedFlightRecord(tmp_path / "record").left


def test_the_reason_can_be_read() -> None:
    assert Death.of(UNFIT << 8) == Death.unfit(CLOSED)
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

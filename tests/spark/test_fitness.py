"""Whether a process can still work, and what the calls of functions take of it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headgate.spark import record_files
from headgate.spark.checkpoint import CheckpointError
from headgate.spark.fitness import CLOSED, Fitness, sign_of
from headgate.spark.flight_record import SharedFlightRecord
from headgate.spark.processes import is_doomed
from headgate.spark.record_files import record_file, remove_left_records
from headgate.spark.tolls import FATAL, TollWatch


@pytest.fixture
def own() -> Iterator[int]:
    read, write = os.pipe()
    yield read
    for descriptor in (read, write):
        with suppress(OSError):
            os.close(descriptor)


@pytest.fixture
def limits() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def lower(soft: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        raise error from cause
    except Exception as found:
        return found


@pytest.mark.parametrize(
    ("error", "sign"),
    [
        (raised(CheckpointError("cannot be written"), OSError(24, "Failed to open")), "Too many open files"),
        (raised(CheckpointError("cannot be written"), OSError(28, "No space left on device")), ""),
        (RuntimeError("can't start new thread"), "can't start new thread"),
        (RuntimeError("a generator was started twice"), ""),
        (MemoryError(), "out of memory"),
        (FileNotFoundError(2, "Too many open files"), ""),
    ],
)
def test_the_errors_that_come_from_the_process(error: Exception, sign: str) -> None:
    assert sign_of(error) == sign


def test_a_process_without_descriptors_cannot_go_on(own: int, limits: None) -> None:
    ended: list[str] = []
    fitness = Fitness(own, ended.append)
    fitness.check()
    fitness.check(ValueError("of a function"))
    assert not ended
    lower(10)
    fitness.check(ValueError("of a function"))
    assert ended == ["Too many open files"]


def test_a_process_that_has_lost_its_own_descriptor_cannot_go_on(own: int) -> None:
    ended: list[str] = []
    fitness = Fitness(own, ended.append)
    os.close(own)
    fitness.check()
    # Another file has its number now.
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, own)
    fitness.check()
    assert ended == [CLOSED, CLOSED]
    os.close(other)


def test_the_toll_of_a_call_is_what_it_keeps(own: int, limits: None) -> None:
    noted: list[tuple[int, int]] = []
    watch = TollWatch(lambda mark, toll: noted.append((mark, toll)), Fitness(own, pytest.fail), lambda: 0, lambda: True)
    call = watch.before()
    kept = [os.dup(own) for _ in range(200)]
    watch.after(5, call)
    [(mark, toll)] = noted
    assert mark == 5
    # Other threads of this process come and go.
    assert 150 < toll < 250
    call = watch.before()
    for each in kept:
        os.close(each)
    watch.after(6, call)
    assert -250 < noted[1][1] < -150
    call = watch.before()
    lower(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1)
    watch.after(7, call)
    assert noted[2] == (7, FATAL)


def test_calls_at_the_same_time_count_for_nobody(own: int) -> None:
    noted: list[tuple[int, int]] = []
    watch = TollWatch(
        lambda mark, toll: noted.append((mark, toll)), Fitness(own, pytest.fail), lambda: 0, lambda: False
    )
    first = watch.before()
    second = watch.before()
    kept = [os.dup(own) for _ in range(200)]
    watch.after(6, second)
    watch.after(5, first)
    assert not noted
    for each in kept:
        os.close(each)


def test_a_killed_process_is_doomed_before_it_is_gone() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        assert not is_doomed(process.pid)
        process.send_signal(signal.SIGSTOP)
        assert not is_doomed(process.pid)
        process.kill()
        assert is_doomed(process.pid)
        process.wait()
        assert is_doomed(process.pid)


def test_records_are_left_for_the_next_supervisor_until_their_owner_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "_MEMORY", tmp_path)
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    mine, orphaned = (record_file(tmp_path, "0123", owner) for owner in (os.getpid(), ended.pid))
    for path in (mine, orphaned):
        SharedFlightRecord(path)
    remove_left_records(tmp_path)
    assert SharedFlightRecord(mine).left
    assert not SharedFlightRecord(orphaned).left

"""Several tasks that bring the rows of one epoch to a host: real processes, whatever is lost when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.spark.host import Refused
from headgate.spark.host_client import HostLost, HostRefused
from headgate.spark.messages import EpochAnswer, EpochRequest
from headgate.spark.processes import is_alive
from headgate.spark.task import bring
from headgate.spark.wire import ConnectionLost
from tests.spark.host_driver import HostDriver, plain
from tests.spark.inline import inline_host
from tests.spark.test_host import SCRIPT, batch
from tests.waiting import LIMIT, wait_until

TASKS = 3


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[HostDriver]:
    driver = HostDriver(tmp_path, SCRIPT)
    driver.ensure()
    yield driver
    driver.close()


def request_of(driver: HostDriver) -> EpochRequest:
    return replace(driver.request(rows=True), tasks=TASKS)


def split(table: pa.Table) -> list[pa.Table]:
    size = -(-table.num_rows // TASKS)
    return [table.slice(number * size, size) for number in range(TASKS)]


def bring_all(driver: HostDriver, request: EpochRequest, table: pa.Table) -> list[bytes]:
    """All tasks at once, as Spark runs them."""
    with ThreadPoolExecutor(TASKS) as threads:
        rows = [driver.packed([part]) for part in split(table)]
        return list(threads.map(lambda task: bring(request, str(task[0]), task[1], task[0]), enumerate(rows)))


def epoch(driver: HostDriver, table: pa.Table) -> EpochAnswer:
    [answer] = [EpochAnswer.unpack(found) for found in bring_all(driver, request_of(driver), table) if found]
    driver.accept(answer)
    return answer


def finished(driver: HostDriver) -> dict[str, list[str]]:
    driver.epoch(finish=True)
    return driver.rows()


def test_one_of_the_tasks_gets_the_answer_to_the_rows_of_all(driver: HostDriver) -> None:
    batches = [batch(number) for number in range(20)]
    for each in batches:
        assert epoch(driver, each).taken == each.num_rows
    assert driver.restored == 1
    assert finished(driver) == plain(driver, batches)


def test_the_answer_comes_with_the_rows_of_the_last_task(driver: HostDriver) -> None:
    request, parts = request_of(driver), split(batch(0))
    # One slot for tasks, which Spark uses in any order.
    for number in (2, 0):
        assert bring(request, f"t{number}", driver.packed([parts[number]]), number) == b""
    answer = EpochAnswer.unpack(bring(request, "t1", driver.packed([parts[1]]), 1))
    assert answer.taken == 60
    driver.accept(answer)
    assert finished(driver) == plain(driver, [batch(0)])


@pytest.mark.parametrize("lost", ["child", "supervisor"])
def test_rows_that_a_lost_host_had_are_not_answered(driver: HostDriver, lost: str) -> None:
    epoch(driver, batch(0))
    request, parts = request_of(driver), split(batch(1))
    assert bring(request, "t0", driver.packed([parts[0]]), 0) == b""
    child = driver.child
    driver.kill_child() if lost == "child" else driver.kill_supervisor()
    wait_until(lambda: not is_alive(child))
    # The next process of the host does not know the rows of the first task. The driver finds no answer.
    for number in (1, 2):
        # A socket that is being closed may still accept a connection.
        with suppress(HostLost):
            assert bring(request, f"t{number}", driver.packed([parts[number]]), number) == b""
    driver.ensure()
    assert epoch(driver, batch(1)).restored
    assert finished(driver) == plain(driver, [batch(0), batch(1)])


@pytest.mark.parametrize("rows", [0, 1])
def test_if_a_task_is_lost_the_others_fail_too(driver: HostDriver, rows: int) -> None:
    host = inline_host()
    request, parts = request_of(driver), split(batch(0))
    sent, lost = threading.Event(), threading.Event()
    answers: list[EpochAnswer] = []

    def waiting() -> Iterator[pa.RecordBatch]:
        yield from driver.packed([parts[0]])
        sent.set()
        assert lost.wait(LIMIT)
        yield from driver.packed([parts[0]])

    def broken() -> Iterator[pa.RecordBatch]:
        yield from driver.packed([parts[1]][:rows])
        raise ConnectionLost("the task is gone")

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(host.epoch, request, "t0", waiting, answers.append, number=0)
        assert sent.wait(LIMIT)
        with pytest.raises(ConnectionLost):
            host.epoch(request, "t1", broken, answers.append, number=1)
        lost.set()
        with pytest.raises(Refused, match="another task were lost"):
            first.result(LIMIT)
    with pytest.raises(Refused, match="another task were lost"):
        host.epoch(request, "t2", lambda: driver.packed([parts[2]]), answers.append, number=2)
    assert not answers
    again = request_of(driver)
    for number, part in enumerate(parts):
        host.epoch(again, "t", lambda part=part: driver.packed([part]), answers.append, number=number)  # type: ignore[misc]
    [answer] = answers
    assert answer.taken == 60
    driver.accept(answer)
    driver.address = None
    assert finished(driver) == plain(driver, [batch(0)])


def test_the_rows_of_a_task_are_not_taken_twice(driver: HostDriver) -> None:
    request, parts = request_of(driver), split(batch(0))
    assert bring(request, "t0", driver.packed([parts[0]]), 0) == b""
    with pytest.raises(HostLost, match="twice"):
        bring(request, "again", driver.packed([parts[0]]), 0)
    epoch(driver, batch(0))
    assert finished(driver) == plain(driver, [batch(0)])


def test_a_request_whose_tasks_never_come_is_left(driver: HostDriver) -> None:
    epoch(driver, batch(0))
    request, parts = request_of(driver), split(batch(1))
    bring(request, "t0", driver.packed([parts[0]]), 0)
    epoch(driver, batch(1))
    with pytest.raises(HostRefused, match="came after"):
        bring(request, "t1", driver.packed([parts[1]]), 1)
    assert not epoch(driver, batch(2)).restored
    assert finished(driver) == plain(driver, [batch(0), batch(1), batch(2)])


def test_what_fails_in_the_host_is_told_to_every_task(driver: HostDriver) -> None:
    request = replace(request_of(driver), plan="none")
    with ThreadPoolExecutor(TASKS) as threads:
        found = [
            threads.submit(bring, request, str(number), driver.packed([part]), number)
            for number, part in enumerate(split(batch(0)))
        ]
        errors = [str(each.exception(LIMIT)) for each in found]
    assert len(set(errors)) == 1, errors
    epoch(driver, batch(0))
    assert finished(driver) == plain(driver, [batch(0)])

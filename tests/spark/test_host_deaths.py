"""Hosts that are killed at steps of the protocol that the rows of `test_host.py` do not name, and hosts that end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.spark import host_client
from headgate.spark.checkpoint import CheckpointError
from headgate.spark.host_client import HostLost, connect, host_folder
from headgate.spark.messages import EpochAnswer
from headgate.spark.processes import is_alive
from headgate.spark.replies import Replies
from headgate.spark.task import bring
from tests.spark import dying_reader
from tests.spark.host_driver import HostDriver, plain
from tests.spark.test_host import EPOCHS, SCRIPT, batch, kill_before_answer
from tests.waiting import LIMIT, wait_until


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[HostDriver]:
    driver = HostDriver(tmp_path, SCRIPT)
    yield driver
    driver.close()


@pytest.mark.parametrize("kill", ["child", "supervisor"])
def test_a_host_that_is_killed_in_the_last_epoch(driver: HostDriver, kill: str) -> None:
    batches = [batch(number) for number in range(EPOCHS)]
    for each in batches:
        driver.epoch(each)
    with pytest.raises(HostLost):
        bring(driver.request(rows=False, finish=True), "0", kill_before_answer(driver, iter(()), kill))
    driver.epoch(finish=True)
    assert driver.rows() == plain(driver, batches)
    assert driver.restored == 2


@contextmanager
def killed_while_reading(driver: HostDriver, file: Path) -> Iterator[None]:
    """Kills the network's process when it has opened a file of the checkpoint and waits for the bytes. It may find just
    before its end that such a file cannot be read."""
    data = file.read_bytes()
    file.unlink()
    os.mkfifo(file)

    def kill() -> None:
        with file.open("wb"):  # waits for the reader
            driver.kill_child()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        killer.join(LIMIT)
        file.unlink()
        file.write_bytes(data)


@pytest.mark.parametrize("step", ["change of plan", "restore under another plan"])
def test_a_host_that_is_killed_while_it_restores_or_changes_its_plan(driver: HostDriver, step: str) -> None:
    batches = [batch(number) for number in range(EPOCHS)]
    for each in batches[:3]:
        driver.epoch(each)
    folder = Path(driver.checkpoint.uri)
    if step != "change of plan":
        driver.kill_child()
    driver.plan_name = replace(driver.plan, policy="fifo").save(driver.checkpoint)
    read = folder / "plans" / driver.plan_name
    with killed_while_reading(driver, read), pytest.raises((HostLost, CheckpointError), match=r"it was killed|lseek"):
        bring(driver.request(rows=True), "0", driver.packed([batches[3]]))
    for each in batches[3:]:
        driver.epoch(each)
    driver.epoch(finish=True)
    assert driver.rows() == plain(driver, batches)
    assert driver.restored == 2


@pytest.mark.parametrize("parts", [0, 1])
def test_a_host_that_is_killed_in_the_middle_of_reading_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    order = tmp_path / "die"
    monkeypatch.setenv(dying_reader.PARTS, str(order))
    script = f"""{SCRIPT}
CREATE FUNCTION unchanged(v INT) RETURNS INT AS '{dying_reader.__name__}:unchanged';
CREATE QUERY grouped AS
SELECT window(ts, '4 seconds') AS w, max(unchanged(v)) AS highest FROM s GROUP BY window(ts, '4 seconds');
"""
    driver = HostDriver(tmp_path, script)
    batches = [batch(number) for number in range(EPOCHS)]
    try:
        for each in batches[:3]:
            driver.epoch(each)
        driver.kill_child()
        order.write_text(str(parts))
        with pytest.raises(HostLost, match="it was killed"):
            bring(driver.request(rows=True), "0", driver.packed([batches[3]]))
        assert not order.exists()
        for each in batches[3:]:
            driver.epoch(each)
        driver.epoch(finish=True)
        assert driver.rows() == plain(driver, batches)
        assert driver.restored == 2
        assert not driver.failed
    finally:
        driver.close()


def test_an_answer_that_reached_the_driver_counts_even_if_its_task_gets_none(driver: HostDriver) -> None:
    batches = [batch(number) for number in range(EPOCHS)]
    driver.epoch(batches[0])
    replies, replied = Replies(host_folder(), driver.token), threading.Event()
    request = replace(driver.request(rows=True), reply=replies.address)

    def task() -> tuple[EpochAnswer, ...]:
        assert request.host is not None
        wire = connect(request.host)
        wire.send({"kind": "epoch", "token": request.token, "task": "0", "number": 0, "request": request.text()})
        assert wire.receive()[0]["kind"] == "go"
        wire.send_rows(driver.packed([batches[1]]))
        assert replied.wait(LIMIT)
        driver.kill_child()
        wire.close()
        raise HostLost("HostLost: the task has read no answer")

    try:
        with ThreadPoolExecutor(1) as threads:
            job = threads.submit(task)
            [answer] = replies.first(request, 1, lambda: job)
            replied.set()
            driver.accept(answer)
            assert isinstance(job.exception(LIMIT), HostLost)
    finally:
        replies.close()
    for each in batches[2:]:
        driver.epoch(each)
    driver.epoch(finish=True)
    assert driver.rows() == plain(driver, batches)
    assert driver.restored == 2


def _change_supervisors(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """Supervisors that start from now on do this first, with the module `s`."""

    def supervisor_process(*arguments: str) -> subprocess.Popen[bytes]:
        code = f"import headgate.spark.supervision as s; {change}; from headgate.spark.supervisor import main; main()"
        path = os.pathsep.join(os.path.abspath(each) for each in sys.path)
        return subprocess.Popen(
            [sys.executable, "-c", f"# headgate.spark.supervisor\n{code}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            process_group=0,
        )

    monkeypatch.setattr(host_client, "_forks", None)
    monkeypatch.setattr(host_client, "_supervisor_process", supervisor_process)


def test_a_host_ends_with_its_owner_even_if_another_process_gets_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    _change_supervisors(monkeypatch, "s.is_alive = lambda pid: True")
    with subprocess.Popen(["sleep", "1000"]) as owner:
        address = host_client.ensure_host("run", 0, "token", owner.pid)
        owner.kill()
    wait_until(lambda: not is_alive(address.pid))


def test_a_host_whose_last_task_was_lost_ends(driver: HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    _change_supervisors(monkeypatch, "s.SILENCE = 1.0")

    def lost() -> Iterator[pa.RecordBatch]:
        yield from driver.packed([batch(0)])
        raise OSError("the task was killed")

    driver.ensure()
    assert driver.address is not None
    # On a busy machine it may be over before the request comes.
    with pytest.raises((OSError, HostLost)):
        bring(driver.request(rows=True), "lost", lost())
    wait_until(lambda: driver.address is not None and not is_alive(driver.address.pid))


def test_a_host_that_is_not_asked_any_more_ends(driver: HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    silence = 1.0
    _change_supervisors(monkeypatch, f"s.SILENCE = {silence}")

    def slowly() -> Iterator[pa.RecordBatch]:
        # A task that is silent for longer is still being served.
        time.sleep(1.5 * silence)
        yield from driver.packed([batch(0)])

    for attempt in range(10):
        # On a busy machine it may be over before the first request comes.
        with suppress(HostLost):
            driver.accept(EpochAnswer.unpack(bring(driver.request(rows=True), str(attempt), slowly())))
            break
    assert driver.address is not None
    first, child = driver.address.pid, driver.child
    wait_until(lambda: not is_alive(first) and not is_alive(child))
    assert not Path(driver.address.socket).exists()
    driver.epoch(batch(1))
    assert driver.address.pid != first
    assert driver.restored == 2

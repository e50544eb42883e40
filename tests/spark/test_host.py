"""Hosts without Spark: real processes that serve epochs, whatever is killed when."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.spark import host_client
from headgate.spark.background import NICENESS
from headgate.spark.checkpoint import CheckpointError
from headgate.spark.host_client import HostLost, HostRefused, close_host, connect, ensure_host
from headgate.spark.messages import EpochAnswer, HostAddress
from headgate.spark.processes import is_alive
from headgate.spark.task import bring
from tests.spark.host_driver import HostDriver, plain
from tests.spark.inline import inline_host
from tests.waiting import LIMIT, wait_until

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
USING parquet OPTIONS (path 'unused');
CREATE QUERY hot AS SELECT ts, k, v FROM s WHERE v > 50;
CREATE QUERY sums AS
SELECT window(ts, '4 seconds', '2 seconds') AS w, k, sum(v) AS total, count(*) AS n
FROM s GROUP BY window(ts, '4 seconds', '2 seconds'), k;
"""
EPOCHS = 6


def batch(number: int, rows: int = 60) -> pa.Table:
    base = 1_700_000_000_000_000 + number * 3_000_000
    times = [base + (i * 7919 % 4000) * 1000 for i in range(rows)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": [f"k{i % 3}" for i in range(rows)],
            "v": pa.array([(i * 31 + number) % 100 for i in range(rows)], pa.int32()),
        }
    )


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[HostDriver]:
    driver = HostDriver(tmp_path, SCRIPT)
    yield driver
    driver.close()


def test_epochs_in_a_row_restore_nothing(driver: HostDriver) -> None:
    batches = [batch(number) for number in range(EPOCHS)]
    for each in batches:
        driver.epoch(each.slice(0, 30), each.slice(30))
    driver.epoch(finish=True)
    assert driver.rows() == plain(driver, batches)
    # The first epoch starts from nothing.
    assert driver.restored == 1


class Broken(Exception):
    """What a test does to a connection."""


def cut_after(batches: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """The first batches; then the task fails, and its connection ends."""
    for number, each in enumerate(batches):
        if number == count:
            raise Broken
        yield each
    raise Broken


def kill_while_feeding(driver: HostDriver, batches: Iterator[pa.RecordBatch], kill: str) -> Iterator[pa.RecordBatch]:
    """Kills the network's process or its supervisor once one batch is sent."""
    child = driver.child
    yield next(batches)
    if kill == "child":
        driver.kill_child()
    else:
        driver.kill_supervisor()
        wait_until(lambda: not is_alive(child))
    yield from batches


def kill_before_answer(driver: HostDriver, batches: Iterator[pa.RecordBatch], kill: str) -> Iterator[pa.RecordBatch]:
    """Stops the network's process, so that it cannot answer, and kills it or its supervisor when all rows are sent."""
    child = driver.child
    os.kill(child, signal.SIGSTOP)
    yield from batches
    if kill == "child":
        driver.kill_child()
    else:
        driver.kill_supervisor()
        wait_until(lambda: not is_alive(child))


STEPS = [
    "child before the request",
    "supervisor before the request",
    "child while feeding",
    "supervisor while feeding",
    "child before the answer",
    "supervisor before the answer",
    "connection before any row",
    "connection while feeding",
    "connection before the answer",
    "child after the answer",
    "supervisor after the answer",
    "answer lost",
    "child after the commit",
    "driver after the commit",
]


@pytest.mark.parametrize("step", STEPS)
def test_whatever_is_killed_at_whatever_step_the_results_are_the_same(driver: HostDriver, step: str) -> None:
    batches = [batch(number) for number in range(EPOCHS)]
    what, _, when = step.partition(" ")
    for number, each in enumerate(batches):
        halves = (each.slice(0, 30), each.slice(30))
        if number not in (1, 3):
            driver.epoch(*halves)
            continue
        if when == "before the request":
            driver.kill_child() if what == "child" else driver.kill_supervisor()
        elif when in ("while feeding", "before the answer", "before any row"):
            rows = driver.packed(halves)
            if what == "connection":
                rows = cut_after(rows, {"before any row": 0, "while feeding": 1, "before the answer": 2}[when])
            elif when == "while feeding":
                rows = kill_while_feeding(driver, rows, what)
            else:
                rows = kill_before_answer(driver, rows, what)
            said = "it was killed" if what == "child" else None
            with pytest.raises(Broken if what == "connection" else HostLost, match=said):
                bring(driver.request(rows=True), "0", rows)
        else:
            answer = EpochAnswer.unpack(bring(driver.request(rows=True), "0", driver.packed(halves)))
            if when == "after the answer":
                driver.kill_child() if what == "child" else driver.kill_supervisor()
            if when == "after the commit":
                driver.accept(answer)
                if what == "child":
                    driver.kill_child()
                else:
                    driver.restart()
                continue
        driver.epoch(*halves)
    driver.epoch(finish=True)
    assert driver.rows() == plain(driver, batches)
    # A request whose connection breaks before the host has begun it changes nothing, so nothing is restored.
    assert driver.restored in ((1, 2, 3) if what == "connection" else (3,))


def test_a_request_with_a_lower_fence_is_refused(driver: HostDriver) -> None:
    old = driver.request(rows=True)
    driver.epoch(batch(0))
    with pytest.raises(HostRefused, match="came after") as refused:
        bring(replace(old, host=driver.address), "0", driver.packed([batch(0)]))
    assert refused.value.kind == "fenced"
    # The network has not noticed.
    assert not driver.epoch(batch(1)).restored


def test_a_request_takes_over_from_one_that_is_stuck(driver: HostDriver) -> None:
    driver.ensure()
    sent, release, ended = threading.Event(), threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        yield from driver.packed([batch(0)])
        sent.set()
        release.wait(LIMIT)

    def first() -> None:
        with pytest.raises((HostLost, HostRefused)):
            bring(request, "0", slow())
        ended.set()

    request = driver.request(rows=True)
    threading.Thread(target=first, daemon=True).start()
    assert sent.wait(LIMIT)
    driver.epoch(batch(0))
    release.set()
    assert ended.wait(LIMIT)
    driver.epoch(finish=True)
    assert driver.rows() == plain(driver, [batch(0)])


def test_a_wrong_token_is_refused(driver: HostDriver) -> None:
    address = driver.ensure()
    with pytest.raises(HostRefused, match="token"):
        bring(replace(driver.request(rows=False), token="guessed", host=address), "0", iter(()))
    driver.epoch(batch(0))


def test_a_checkpoint_that_cannot_be_read_is_reported_as_such(driver: HostDriver) -> None:
    driver.epoch(batch(0))
    driver.kill_child()
    parts = list((Path(driver.checkpoint.uri) / "parts").glob("*"))
    for file in parts:
        file.rename(file.with_suffix(".away"))
    with pytest.raises(CheckpointError, match="is damaged"):
        bring(driver.request(rows=True), "0", driver.packed([batch(1)]))
    for file in parts:
        file.with_suffix(".away").rename(file)
    driver.epoch(batch(1))
    driver.epoch(finish=True)
    assert driver.rows() == plain(driver, [batch(0), batch(1)])


def test_rows_that_wait_are_processed_between_epochs(tmp_path: Path) -> None:
    driver = HostDriver(tmp_path, SCRIPT)
    host = inline_host()
    rows = [batch(number, 5_000) for number in range(20)]

    def epoch(*tables: pa.Table, finish: bool = False) -> EpochAnswer:
        request = driver.request(bool(tables), finish, None if finish else 0.0)
        answers: list[EpochAnswer] = []
        host.epoch(request, "0", lambda: driver.packed(tables), answers.append)
        driver.accept(answers[0])
        return answers[0]

    # No time for anything: rows wait when the host answers.
    assert epoch(*rows).waiting
    wait_until(lambda: not host.waiting)
    epoch()
    found = driver.rows()["hot"]
    epoch(finish=True)
    assert found == driver.rows()["hot"] == plain(driver, rows)["hot"]
    assert driver.restored == 1


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has a niceness of its own on Linux only")
def test_epochs_get_a_processor_before_the_backlog() -> None:
    mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    others = {thread.native_id for thread in threading.enumerate()}
    inline_host()
    thread = next(each for each in threading.enumerate() if each.native_id not in others)
    assert thread.native_id is not None
    wait_until(lambda: os.getpriority(os.PRIO_PROCESS, thread.native_id or 0) == min(19, mine + NICENESS))
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == mine


def test_two_starters_get_one_host(driver: HostDriver) -> None:
    found: list[HostAddress] = []
    threads = [threading.Thread(target=lambda: found.append(driver.ensure())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_a_host_that_is_closed_is_gone(driver: HostDriver) -> None:
    driver.epoch(batch(0))
    child = driver.child
    assert driver.address is not None
    assert close_host(driver.address, driver.token)
    assert not is_alive(driver.address.pid)
    assert not is_alive(child)
    assert not Path(driver.address.socket).exists()


def test_a_host_ends_with_its_owner(driver: HostDriver) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    address = ensure_host(driver.run, 0, driver.token, owner.pid)
    driver.address = address
    child = driver.child
    owner.kill()
    owner.wait()
    wait_until(lambda: not is_alive(address.pid) and not is_alive(child))


def test_other_nodes_reach_it_by_tcp(driver: HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    address = ensure_host(driver.run, 0, driver.token, os.getpid(), tcp=True)
    driver.address = address
    driver.epoch(batch(0))
    monkeypatch.setattr(host_client, "node", lambda: "elsewhere")
    rows = [batch(number, 20_000) for number in (1, 2)]
    driver.epoch(rows[0])
    assert not driver.epoch(rows[1]).restored
    monkeypatch.undo()
    driver.epoch(finish=True)
    assert driver.rows() == plain(driver, [batch(0), *rows])


def test_a_host_whose_answer_was_lost_does_not_continue_from_it(driver: HostDriver) -> None:
    batches = [batch(number) for number in range(3)]
    driver.epoch(batches[0])
    first = driver.address
    # Answered, but the driver never sees it, and repeats the epoch with another host.
    bring(driver.request(rows=True), "0", driver.packed(batches[1:2]))
    other = ensure_host(driver.run, 1, driver.token, os.getpid())
    driver.address = other
    try:
        driver.epoch(batches[1])
        driver.address = first
        assert driver.epoch(batches[2]).restored
        driver.epoch(finish=True)
    finally:
        close_host(other, driver.token)
    assert driver.rows() == plain(driver, batches)


def test_supervisors_are_forked_where_the_driver_has_prepared_for_it() -> None:
    host_client.prepare_hosts()
    parent = host_client._forks
    assert parent is not None
    host_client.prepare_hosts()
    assert host_client._forks is parent
    addresses = [ensure_host(uuid.uuid4().hex, replica, "token", os.getpid()) for replica in range(2)]
    try:
        for address in addresses:
            status = Path(f"/proc/{address.pid}/status").read_text()
            assert f"PPid:\t{parent.pid}\n" in status
            connect(address).close()
    finally:
        for address in addresses:
            assert close_host(address, "token")
    wait_until(lambda: not any(is_alive(address.pid) for address in addresses))
    # If it was killed, supervisors are started as they are elsewhere.
    parent.kill()
    parent.wait()
    address = ensure_host(uuid.uuid4().hex, 0, "token", os.getpid())
    assert close_host(address, "token")

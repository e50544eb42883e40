"""Whatever a user's function does, only its query fails: hosts without Spark."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.spark.host_client import HostLost, close_host, last_death
from headgate.spark.messages import EpochAnswer
from headgate.spark.processes import is_alive
from headgate.spark.task import bring
from tests.crash import bad_functions
from tests.spark.host_driver import HostDriver, plain
from tests.spark.test_host import batch
from tests.waiting import LIMIT, wait_until

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
USING parquet OPTIONS (path 'unused');
CREATE FUNCTION good(v INT) RETURNS INT AS 'tests.crash.bad_functions:good';
CREATE FUNCTION harm(v INT) RETURNS INT AS 'tests.crash.bad_functions:{harm}' WITH (timeout = '{timeout}');
CREATE QUERY fine AS SELECT ts, k, good(v) AS v FROM s WHERE v > 50;
CREATE QUERY sums AS
SELECT window(ts, '4 seconds', '2 seconds') AS w, k, sum(v) AS total, count(*) AS n
FROM s GROUP BY window(ts, '4 seconds', '2 seconds'), k;
CREATE QUERY bad AS SELECT ts, harm(v) AS v FROM s WHERE v > 10;
CREATE QUERY worse AS SELECT sum(v) AS total FROM bad;
"""


SLOW = {
    *(bad_functions.swallow, bad_functions.keep_threads, bad_functions.start_threads),
    *(bad_functions.sleep_in_c, bad_functions.lower_limit, bad_functions.keep_sockets, bad_functions.keep_files),
    *(bad_functions.close_all, bad_functions.kill_supervisor, bad_functions.handle_signal),
}
RAISING = {bad_functions.leave_politely, bad_functions.handle_signal}
"""These fail in the epoch itself, which nothing repeats."""


def rows(number: int, bad: bool = False) -> pa.Table:
    found = batch(number)
    if not bad:
        return found
    values = found.column("v").to_pylist()
    return found.set_column(2, "v", pa.array([1000, *values[1:]], pa.int32()))


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[list[HostDriver]]:
    made: list[HostDriver] = []
    yield made
    for driver in made:
        driver.close()


def started(drivers: list[HostDriver], root: Path, harm: str, timeout: str = "2 seconds", **plan: object) -> HostDriver:
    driver = HostDriver(root, SCRIPT.format(harm=harm, timeout=timeout), **plan)
    drivers.append(driver)
    return driver


def start_with(driver: HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts the host, in which alone some functions do harm: not where `plain` runs them."""
    monkeypatch.setenv("IN_HOST", "1")
    driver.ensure()
    monkeypatch.delenv("IN_HOST")


def check(driver: HostDriver, batches: list[pa.Table], good_until: int) -> None:
    """`bad` and `worse` have failed after `good_until` batches; the others have all their results."""
    found, wanted = driver.rows(), plain(driver, batches, without=["bad", "worse"])
    assert {name: found[name] for name in wanted} == wanted
    assert set(driver.failed) == {"bad", "worse"}
    # Its results from before are there, once.
    assert found["bad"] == plain(driver, batches[:good_until], without=["worse"])["bad"]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "harm",
    [pytest.param(h, marks=pytest.mark.slow if h in SLOW else ()) for h in bad_functions.HARMS],
    ids=lambda harm: harm.__name__,
)
def test_only_the_query_of_a_harmful_function_fails(
    tmp_path: Path, drivers: list[HostDriver], harm: object, threads: int
) -> None:
    name: str = harm.__name__  # type: ignore[attr-defined]
    patient = {bad_functions.swallow, bad_functions.keep_threads, bad_functions.start_threads}
    timeout = "900 seconds" if harm in patient else "2 seconds"
    driver = started(drivers, tmp_path, name, timeout, threads=threads)
    batches = [rows(number, bad=number == 2) for number in range(5)]
    for each in batches:
        # A kill convicts an operator that ran three times; if several did, the fourth death names one.
        driver.epoch(each, attempts=6)
    driver.epoch(finish=True)
    check(driver, batches, 2)
    assert bad_functions.HARMS[harm] in driver.failed["bad"]  # type: ignore[index]
    # The first epoch, and the one that was repeated after the death.
    assert driver.restored == (1 if harm in RAISING else 2)


def test_a_function_that_takes_too_much_memory(tmp_path: Path, drivers: list[HostDriver]) -> None:
    driver = started(drivers, tmp_path, "nibble", "900 seconds")
    driver.memory = 600 << 20
    batches = [rows(number, bad=number == 1) for number in range(3)]
    for each in batches:
        driver.epoch(each)
    driver.epoch(finish=True)
    check(driver, batches, 1)
    assert "nibble used more memory than the host's limit of 0.6 GB" in driver.failed["bad"]
    assert driver.restored == 2


def test_a_slow_leak_ends_the_process_and_the_second_time_its_query(
    tmp_path: Path, drivers: list[HostDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = started(drivers, tmp_path, "leak", threads=3)
    start_with(driver, monkeypatch)
    batches: list[pa.Table] = []
    while "bad" not in driver.failed:
        batches.append(rows(len(batches), bad=True))
        driver.epoch(batches[-1])
        assert len(batches) < 20
    # The process could work on after the first few leaks, and so could the second one.
    assert len(batches) > 8
    batches.append(rows(len(batches)))
    driver.epoch(batches[-1], attempts=1)
    driver.epoch(finish=True)
    check(driver, batches, len(batches) - 2)
    assert "leak left its process unable to work (Too many open files)" in driver.failed["bad"]
    assert driver.restored == 3


@pytest.mark.slow
def test_what_a_function_changes_about_its_process_does_not_matter(
    tmp_path: Path, drivers: list[HostDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = started(drivers, tmp_path, "unsettle")
    start_with(driver, monkeypatch)
    batches = [rows(number, bad=number == 1) for number in range(4)]
    for each in batches:
        driver.epoch(each, attempts=1)
    driver.epoch(finish=True)
    assert driver.rows() == plain(driver, batches)
    assert driver.restored == 1
    assert all(path.stat().st_mode & 0o400 for path in (tmp_path / "ck").rglob("*") if path.is_file())


@pytest.mark.slow
def test_a_verdict_survives_the_supervisor(tmp_path: Path, drivers: list[HostDriver]) -> None:
    driver = started(drivers, tmp_path, "leave")
    batches = [rows(number, bad=number == 1) for number in range(3)]
    driver.epoch(batches[0])
    with pytest.raises(HostLost):
        bring(driver.request(rows=True), "0", driver.packed(batches[1:2]))
    assert driver.address is not None
    assert "the queries to blame fail" in last_death(driver.address, driver.token)
    driver.kill_supervisor()
    driver.epoch(batches[1])
    driver.epoch(batches[2], attempts=1)
    driver.epoch(finish=True)
    check(driver, batches, 1)


def test_a_verdict_holds_until_it_is_committed(tmp_path: Path, drivers: list[HostDriver]) -> None:
    driver = started(drivers, tmp_path, "leave")
    batches = [rows(number, bad=number == 1) for number in range(3)]
    driver.epoch(batches[0])
    with pytest.raises(HostLost):
        bring(driver.request(rows=True), "0", driver.packed(batches[1:2]))
    # Answered and not committed: first the same process, then a new one, must know of it.
    for _ in range(2):
        answer = EpochAnswer.unpack(bring(driver.request(rows=True), "0", driver.packed(batches[1:2])))
        assert set(answer.failed) == {"bad", "worse"}
    driver.kill_child()
    driver.epoch(batches[1], attempts=1)
    # Committed: the state knows of it.
    driver.kill_child()
    assert not driver.epoch(batches[2], attempts=1).failed
    driver.epoch(finish=True)
    check(driver, batches, 1)


def test_if_several_functions_ran_the_next_death_names_one(
    tmp_path: Path, drivers: list[HostDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEETING_PLACE", str(tmp_path))
    script = SCRIPT.replace("bad_functions:good", "bad_functions:meet")
    driver = HostDriver(tmp_path, script.format(harm="meet_and_leave", timeout="20 seconds"), threads=3)
    drivers.append(driver)
    batches = [rows(number, bad=number == 1) for number in range(3)]
    driver.epoch(batches[0])
    with pytest.raises(HostLost):
        driver.epoch(batches[1], attempts=1)
    if (tmp_path / "met").exists():
        # Either may have been the cause: the next process runs one function at a time.
        with pytest.raises(HostLost):
            driver.epoch(batches[1], attempts=1)
    driver.epoch(batches[1], attempts=1)
    driver.epoch(batches[2])
    driver.epoch(finish=True)
    monkeypatch.setenv("MEETING_PLACE", str(tmp_path))
    check(driver, batches, 1)


@pytest.mark.parametrize("how", ["hang", "raise"])
def test_a_module_whose_import_does_harm(
    tmp_path: Path, drivers: list[HostDriver], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    script = SCRIPT.replace("bad_functions:{harm}", "bad_module:harmless").format(timeout="2 seconds")
    driver = HostDriver(tmp_path, script)
    drivers.append(driver)
    monkeypatch.setenv("BAD_MODULE", how)
    batches = [rows(number) for number in range(2)]
    for each in batches:
        driver.epoch(each)
    # Restored without the module.
    driver.kill_child()
    driver.epoch(finish=True, attempts=1)
    check(driver, batches, 0)
    assert ("ran longer than its limit" if how == "hang" else "not today") in driver.failed["bad"]


@pytest.mark.parametrize("harm", ["hang", "hang_in_c", pytest.param("sleep_in_c", marks=pytest.mark.slow)])
def test_a_host_that_hangs_can_be_closed(
    tmp_path: Path, drivers: list[HostDriver], monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.setenv("MEETING_PLACE", str(tmp_path))
    driver = started(drivers, tmp_path, harm, "600 seconds")
    driver.epoch(rows(0))
    child = driver.child
    before = cpu_seconds(child)
    assert driver.address is not None
    ended = threading.Event()

    def stuck() -> None:
        with pytest.raises(HostLost):
            driver.epoch(rows(1, bad=True), attempts=1)
        ended.set()

    threading.Thread(target=stuck, daemon=True).start()
    wait_until(lambda: cpu_seconds(child) > before + 1 or (tmp_path / "asleep").exists())
    began = time.monotonic()
    assert close_host(driver.address, driver.token)
    assert not is_alive(driver.address.pid)
    wait_until(lambda: not is_alive(child))
    assert ended.wait(LIMIT)
    assert time.monotonic() - began < 10

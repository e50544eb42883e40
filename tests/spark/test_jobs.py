"""The jobs of epochs on Spark: as many tasks as read the rows at once, and one answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.spark import replies as replies_module
from headgate.spark.epoch_failures import EpochFailures
from headgate.spark.host_client import HostLost, host_folder
from headgate.spark.jobs import REPLICA, SparkJobs, batch_rdd
from headgate.spark.messages import ANSWER_DDL, EpochAnswer, JobRequest, ReplicaPart
from headgate.spark.processes import is_alive
from headgate.spark.replies import Replies
from tests.spark.host_driver import HostDriver, plain
from tests.spark.test_carry import _types
from tests.spark.test_host import SCRIPT, batch
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[HostDriver]:
    driver = HostDriver(tmp_path, SCRIPT)
    yield driver
    driver.close()


@pytest.fixture(params=["answers through the job", "answers from the host, too"])
def jobs(spark: Any, driver: HostDriver, request: pytest.FixtureRequest) -> Iterator[SparkJobs]:
    replies = Replies(host_folder(), driver.token) if request.param == "answers from the host, too" else None
    jobs = SparkJobs(spark, "test-jobs", replies)
    yield jobs
    jobs.end_job()
    jobs.close()


def request_of(driver: HostDriver, rows: bool = True, finish: bool = False) -> JobRequest:
    driver.ensure()
    request = driver.request(rows, finish)
    return JobRequest(request, (ReplicaPart(request.host, request.continues),))


def frame_of(spark: Any, driver: HostDriver, table: pa.Table, partitions: int) -> Any:
    rows = next(driver.packed([table])).to_pandas()
    frame = spark.createDataFrame(rows, ", ".join(_types(driver)))
    return frame.repartition(partitions) if partitions else frame.limit(0).where("false")


def test_one_replica_needs_no_shuffle(spark: Any) -> None:
    jobs = SparkJobs(spark, "test-jobs")
    rows = spark.range(100).repartition(3).selectExpr("id", f"CAST(id % 2 AS INT) AS {REPLICA}")
    # The exchange of the source itself is not counted.
    own = rows._jdf.queryExecution().executedPlan().toString().count("Exchange")
    plans = [jobs.answers(rows, count)._jdf.queryExecution().executedPlan().toString() for count in (1, 2)]
    assert [plan.count("Exchange") - own for plan in plans] == [0, 1]
    jobs.close()


def test_any_number_of_partitions_has_one_answer(spark: Any, driver: HostDriver, jobs: SparkJobs) -> None:
    numbers = [1, 2, 0, 3, 7, 16]
    for number, partitions in enumerate(numbers):
        frame = jobs.answers(frame_of(spark, driver, batch(number), partitions), 1)
        [answer] = jobs.collect(frame, request_of(driver))
        jobs.end_job()
        assert answer.taken == (60 if partitions else 0)
        driver.accept(answer)
    driver.accept(jobs.ask(request_of(driver, rows=False, finish=True))[0])
    assert driver.restored == 1
    assert driver.rows() == plain(driver, [batch(number) for number, n in enumerate(numbers) if n])


@pytest.mark.parametrize("jobs", ["answers through the job"], indirect=True)
def test_where_executors_own_the_hosts_the_driver_starts_none(
    driver: HostDriver, jobs: SparkJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(driver, rows=False)
    known = driver.address
    assert known is not None
    os.kill(known.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(known.pid))
    # Workers have modules of their own.
    monkeypatch.setattr("headgate.spark.task.ensure_host", lambda *_, **__: pytest.fail("the driver started a host"))
    [answer] = jobs.ask(replace(request, common=replace(request.common, owner=0)))
    driver.accept(answer)
    assert answer.host.pid != known.pid


@pytest.mark.parametrize("jobs", ["answers from the host, too"], indirect=True)
def test_a_job_without_an_answer_is_repeated(spark: Any, driver: HostDriver, jobs: SparkJobs) -> None:
    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from list(batches)[:0]

    silent = spark.range(0, 2, 1, 2).mapInArrow(nothing, ANSWER_DDL)
    with pytest.raises(HostLost) as raised:
        jobs.collect(silent, request_of(driver))
    assert EpochFailures.transient(raised.value)
    jobs.end_job()


def answer_to_stream(spark: Any, driver: HostDriver, jobs: SparkJobs, folder: Path) -> list[EpochAnswer | HostLost]:
    """The answers to the micro-batches of a stream of two files, one after the other."""
    for number in range(2):
        rows = next(driver.packed([batch(number)])).to_pandas()
        written = spark.createDataFrame(rows, ", ".join(_types(driver))).coalesce(1)
        written.write.mode("append").parquet(str(folder / "rows"))
    stream = spark.readStream.schema(", ".join(_types(driver))).option("maxFilesPerTrigger", "1")
    found: list[EpochAnswer | HostLost] = []

    def take(frame: Any, _: int) -> None:
        assert batch_rdd(frame) is not None
        try:
            [answer] = jobs.collect(frame, request_of(driver))
            found.append(answer)
        except HostLost as error:
            found.append(error)
        jobs.end_job()
        if isinstance(found[-1], EpochAnswer):
            driver.accept(found[-1])

    frame = jobs.answers(stream.parquet(str(folder / "rows")), 1)
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def test_micro_batches_are_answered(spark: Any, driver: HostDriver, jobs: SparkJobs, tmp_path: Path) -> None:
    found = answer_to_stream(spark, driver, jobs, tmp_path)
    assert [answer.taken for answer in found if isinstance(answer, EpochAnswer)] == [60, 60]
    assert driver.restored == 1


@pytest.mark.parametrize("jobs", ["answers from the host, too"], indirect=True)
def test_where_no_reply_arrives_the_next_job_brings_the_answer(
    spark: Any, driver: HostDriver, jobs: SparkJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Replies, "_receive", lambda replies, wire: None)
    monkeypatch.setattr(replies_module, "_TIMEOUT", 0.1)
    lost, answer = answer_to_stream(spark, driver, jobs, tmp_path)
    assert isinstance(lost, HostLost)
    assert EpochFailures.transient(lost)
    assert isinstance(answer, EpochAnswer)
    assert answer.taken == 60

"""The task on Spark: finds or starts its host, brings the rows, and returns the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.messages import ANSWER_DDL, PROPERTY, EpochAnswer, EpochRequest, JobRequest, ReplicaPart
from headgate.spark.processes import is_alive
from headgate.spark.task import carry
from tests.spark.host_driver import HostDriver, plain
from tests.spark.test_host import SCRIPT, batch
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


def answer_of(spark: Any, frame: Any, request: EpochRequest) -> EpochAnswer:
    job = JobRequest(request, (ReplicaPart(request.host, request.continues),))
    spark.sparkContext.setLocalProperty(PROPERTY, job.text())
    try:
        rows = frame.coalesce(1).mapInArrow(carry, ANSWER_DDL).collect()
    finally:
        spark.sparkContext.setLocalProperty(PROPERTY, None)
    assert len(rows) == 1
    return EpochAnswer.unpack(bytes(rows[0][0]))


def test_tasks_bring_rows_to_one_host(spark: Any, tmp_path: Path) -> None:
    driver = HostDriver(tmp_path, SCRIPT)
    batches = [batch(number) for number in range(4)]
    try:
        for number, each in enumerate(batches):
            # The executor starts it: of the driver's process in local mode, and later of none.
            request = driver.request(rows=True)
            if number == 0:
                request = replace(request, owner=0)
            frame = spark.createDataFrame(next(driver.packed([each])).to_pandas(), ", ".join(_types(driver)))
            driver.accept(answer_of(spark, frame, request))
        first = driver.address
        assert first is not None
        assert first.port, "an executor's host can be reached from other nodes"
        driver.accept(answer_of(spark, spark.range(1), driver.request(rows=False, finish=True)))
        assert driver.address == first
        assert driver.restored == 1
        assert driver.rows() == plain(driver, batches)
    finally:
        driver.close()
    assert driver.address is not None
    pid = driver.address.pid
    wait_until(lambda: not is_alive(pid))


def _types(driver: HostDriver) -> list[str]:
    from headgate.graph.types import sql_name

    return ["stream SMALLINT", *(f"{slot.name} {sql_name(slot.type)}" for slot in driver.packing.slots)]

"""A state that does not fit into the memory of its host fails its query, also if nothing runs at that moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headgate.spark.processes import resident_bytes
from tests.spark.host_driver import HostDriver
from tests.waiting import wait_until

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
USING parquet OPTIONS (path 'unused');
CREATE QUERY fine AS SELECT ts, v FROM s WHERE v % 100000 = 0;
CREATE QUERY large AS SELECT window(ts, '100 days') AS w, k, count(*) AS n FROM s GROUP BY window(ts, '100 days'), k;
"""
ROWS, BATCHES = 400_000, 4


def batch(number: int) -> pa.Table:
    values = np.arange(ROWS, dtype=np.int32) + number * ROWS
    keys = np.char.add("a key that takes some memory, of which there are many: ", values.astype(str))
    times = np.full(ROWS, 1_700_000_000_000_000 + number * 1_000_000)
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array(keys), "v": pa.array(values)})


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[HostDriver]:
    driver = HostDriver(tmp_path, SCRIPT)
    yield driver
    driver.close()


@pytest.mark.slow
def test_a_restart_with_less_memory_fails_the_query_with_the_largest_state(driver: HostDriver) -> None:
    one = batch(0).slice(0, 1)
    driver.epoch(one)
    empty = resident_bytes(driver.child)
    for number in range(BATCHES):
        driver.epoch(batch(number))
    driver.kill_child()
    driver.epoch(one)
    full = resident_bytes(driver.child)
    assert full - empty > 60 << 20, "the test needs a large state"
    driver.kill_supervisor()
    driver.memory = (empty + full) // 2

    def failed() -> bool:
        # The limit is exceeded while the state is restored, or soon after; nothing runs most of the time.
        driver.epoch(one, attempts=6)
        return "large" in driver.failed

    wait_until(failed)
    assert set(driver.failed) == {"large"}
    assert "memory" in driver.failed["large"]
    driver.epoch(finish=True)
    assert len(set(driver.rows()["fine"])) == ROWS * BATCHES // 100_000

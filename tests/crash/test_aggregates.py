"""Whatever a user-defined aggregate does, only its query fails; its state is saved and restored (no Spark)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.crash import bad_aggregates
from tests.crash.test_functions import rows
from tests.spark.host_driver import HostDriver, plain

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
USING parquet OPTIONS (path 'unused');
CREATE AGGREGATE mean_of(x DOUBLE) RETURNS DOUBLE AS 'tests.oracle.aggregates:Mean';
CREATE AGGREGATE harm(x DOUBLE) RETURNS DOUBLE AS 'tests.crash.bad_aggregates:{harm}' WITH (timeout = '2 seconds');
CREATE QUERY fine AS
SELECT window(ts, '4 seconds', '2 seconds') AS w, k, mean_of(v) AS m, avg(v) AS a
FROM s GROUP BY window(ts, '4 seconds', '2 seconds'), k;
CREATE QUERY changes AS SELECT k, mean_of(v) AS m, avg(v) AS a FROM s GROUP BY k;
CREATE QUERY bad AS SELECT window(ts, '2 seconds') AS w, harm(v) AS m FROM s GROUP BY window(ts, '2 seconds');
CREATE QUERY worse AS SELECT max(m) AS m FROM bad;
"""


@pytest.fixture
def drivers() -> Iterator[list[HostDriver]]:
    made: list[HostDriver] = []
    yield made
    for driver in made:
        driver.close()


@pytest.mark.parametrize("harm", bad_aggregates.HARMS, ids=lambda harm: harm.__name__)
def test_only_the_query_of_a_harmful_aggregate_fails(tmp_path: Path, drivers: list[HostDriver], harm: type) -> None:
    drivers.append(driver := HostDriver(tmp_path, SCRIPT.format(harm=harm.__name__)))
    batches = [rows(number, bad=number == 2) for number in range(5)]
    for each in batches:
        driver.epoch(each, attempts=6)
    driver.epoch(finish=True)
    found, wanted = driver.rows(), plain(driver, batches, without=["bad", "worse"])
    assert {name: found[name] for name in wanted} == wanted
    assert set(driver.failed) == {"bad", "worse"}
    assert bad_aggregates.HARMS[harm] in driver.failed["bad"]


def test_the_state_survives_a_lost_host(tmp_path: Path, drivers: list[HostDriver]) -> None:
    drivers.append(driver := HostDriver(tmp_path, SCRIPT.format(harm="Raising")))
    batches = [rows(number) for number in range(6)]
    for number, each in enumerate(batches):
        if number % 2:
            driver.kill_child()
        driver.epoch(each, attempts=3)
    driver.epoch(finish=True)
    assert not driver.failed
    assert driver.rows() == plain(driver, batches, without=[])
    for name in ("fine", "changes"):
        made = pa.concat_tables(driver.results[name])
        assert made.num_rows > 4
        assert made["m"].to_pylist() == pytest.approx(made["a"].to_pylist(), rel=1e-12)


def test_a_wrong_number_of_values_is_reported(tmp_path: Path, drivers: list[HostDriver]) -> None:
    drivers.append(driver := HostDriver(tmp_path, SCRIPT.format(harm="TooFew")))
    for number in range(4):
        driver.epoch(rows(number), attempts=2)
    driver.epoch(finish=True)
    assert "terminate returned" in driver.failed["bad"]
    assert "groups" in driver.failed["bad"]

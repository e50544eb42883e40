"""Trains of up to 100,000 rows, on longer streams, give the results of Spark SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headgate.graph.shared import SharedGraph
from headgate.graph.types import TIMESTAMP
from headgate.runtime import Limits, Network, result_table
from headgate.spark.types import to_arrow
from headgate.sql import Catalog
from tests.oracle.answers import Answer, differences
from tests.runtime.ways import MODES, POLICIES, takes_rows, with_trains

pytestmark = pytest.mark.spark

ROWS, BATCH = 240_000, 120_000
TRAINS = (1_000, 17_000, 100_000)
STREAMS = """
CREATE STREAM a (at TIMESTAMP, k INT, v INT, WATERMARK FOR at AS at - INTERVAL 5 SECONDS)
  USING json OPTIONS (path 'in');
CREATE STREAM b (bt TIMESTAMP, k INT, w INT, WATERMARK FOR bt AS bt - INTERVAL 5 SECONDS)
  USING json OPTIONS (path 'in');
"""
QUERIES = {
    "selection": "SELECT at, k, v * 2 AS twice FROM a WHERE v > 90 AND k <> 3",
    "windows": "SELECT window(at, '10 seconds') AS x, k, count(*) AS n, sum(v) AS total, avg(v) AS mean FROM a "
    "WHERE v > 10 GROUP BY window(at, '10 seconds'), k",
    "hopping": "SELECT window(bt, '20 seconds', '10 seconds') AS x, max(w) AS most FROM b "
    "GROUP BY window(bt, '20 seconds', '10 seconds')",
    "updates": "SELECT k, count(*) AS n, min(v) AS least FROM a GROUP BY k",
    "join": "SELECT a.k, v, w FROM a JOIN b ON a.k = b.k AND bt BETWEEN at AND at + INTERVAL 1 SECOND "
    "WHERE v > 97 AND w > 97",
    "union": "SELECT k, v AS x FROM a WHERE v = 1 UNION ALL SELECT k, w AS x FROM b WHERE w = 2",
}


def rows(seed: int, names: tuple[str, str, str]) -> pa.RecordBatch:
    chance = np.random.default_rng(seed)
    times = 1_767_225_600_000_000 + np.arange(ROWS) * 1000
    values = [
        pa.array(times).cast(TIMESTAMP),
        pa.array(chance.integers(0, 50, ROWS), pa.int32()),
        pa.array(chance.integers(0, 100, ROWS), pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(values, names=list(names))


BATCHES = {"a": rows(1, ("at", "k", "v")), "b": rows(2, ("bt", "k", "w"))}


@pytest.fixture(scope="module")
def expected(spark: Any) -> dict[str, Answer]:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    for name, batch in BATCHES.items():
        session.createDataFrame(pa.Table.from_batches([batch])).createOrReplaceTempView(name)
    found = {}
    for name, sql in QUERIES.items():
        frame = session.sql(sql)
        found[name] = Answer.of(frame.toArrow(), [to_arrow(field.dataType) for field in frame.schema.fields])
    return found


def run(
    policy: str, mode: str, expected: dict[str, Answer], at_the_end: Callable[[Network], None] | None = None
) -> None:
    catalog = Catalog(time_zone="UTC")
    catalog.execute(STREAMS)
    graph = SharedGraph()
    queries = {name: catalog.query(name, sql) for name, sql in QUERIES.items()}
    for query in queries.values():
        graph.add(query)
    # Only the policy limits a grant.
    network = Network(graph, policy, mode=mode, threads=3, limits=Limits(grant=1e9, stuck=300.0))
    for start in range(0, ROWS, BATCH):
        for stream, batch in BATCHES.items():
            network.push(stream, batch.slice(start, BATCH))
        network.run(0.05)
    network.finish()
    assert network.run().done
    if at_the_end is not None:
        at_the_end(network)
    for name, query in queries.items():
        found = Answer.of(result_table(query, network.take(name)))
        assert found.header == expected[name].header
        wrong = differences(found.rows, expected[name].rows)
        assert not wrong, f"{name} under {policy}, {mode}:\n{wrong}"
    assert network.memory_bytes == 0
    network.close()


def longest(network: Network) -> float:
    """The largest mean number of rows per grant of any unit."""
    return max(unit["rows"] / unit["grants"] for unit in network.metrics()["units"] if unit["grants"])


@pytest.mark.parametrize("mode", MODES)
def test_long_trains(mode: str, expected: dict[str, Answer]) -> None:
    place = MODES.index(mode)
    run(with_trains(("chain", "fifo", "hr", "cqc", "segment")[place], TRAINS[place % len(TRAINS)]), mode, expected)


def test_a_train_is_as_long_as_the_policy_says(expected: dict[str, Answer]) -> None:
    def check(network: Network) -> None:
        # The batches have 120,000 rows: a long train and a short one, and a first one whose cost is not yet known.
        assert 30_000 < longest(network) <= 100_000

    run("fifo:rows=100000", "graph", expected, check)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "direct"])
@pytest.mark.parametrize("policy", [policy for policy in POLICIES if takes_rows(policy)])
def test_long_trains_under_everything(policy: str, mode: str, expected: dict[str, Answer]) -> None:
    for length in TRAINS:
        run(with_trains(policy, length), mode, expected)

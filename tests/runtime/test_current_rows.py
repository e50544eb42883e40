"""A query over a query that updates finds its current rows, whenever it is added."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.runtime import Folder, Network, result_table
from headgate.sql import Catalog

SETUP = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts) USING rate;
CREATE STREAM t (at TIMESTAMP, k STRING, WATERMARK FOR at AS at) USING rate;
CREATE QUERY totals AS SELECT k, sum(v) AS total, count(*) AS n FROM s GROUP BY k HAVING sum(v) > 0;
"""
LATER = {
    "twice": "SELECT k, 2 * total AS twice FROM totals WHERE n < 3",
    "best": "SELECT k, total FROM totals ORDER BY total DESC LIMIT 2",
    "second": "SELECT k, total FROM (SELECT k, total FROM totals ORDER BY total DESC LIMIT 2) ORDER BY total LIMIT 1",
    "joined": "SELECT t.k, c.total FROM t LEFT JOIN totals c ON t.k = c.k",
}
WANTED = {
    "twice": {("b", 10), ("c", 16), ("d", 2)},
    "best": {("c", 8), ("a", 6)},
    "second": {("a", 6)},
    "joined": {("a", 6), ("b", 5), ("e", None)},
}


def queries() -> dict[str, Query]:
    catalog = Catalog()
    catalog.execute(SETUP)
    found = {"totals": catalog.queries["totals"]}
    return found | {name: catalog.query(name, text) for name, text in LATER.items()}


def moment(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def push(network: Network, stream: str, *rows: tuple[object, ...]) -> None:
    types = [pa.timestamp("us", "UTC"), pa.string(), pa.int32()]
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=False)]
    network.push(stream, pa.RecordBatch.from_arrays(arrays, names=["ts", "k", "v"][: len(arrays)]))


def before(network: Network) -> None:
    push(network, "s", (moment(1), "a", 3), (moment(1), "b", 5), (moment(1), "e", -1), (moment(2), "a", 2))
    network.run()
    push(network, "s", (moment(3), "a", 1), (moment(3), "c", 8), (moment(3), "e", 1))


def after(network: Network) -> None:
    push(network, "s", (moment(5), "d", 1))
    push(network, "t", (moment(6), "a"), (moment(6), "b"), (moment(6), "e"))
    network.finish()
    network.run()


@pytest.mark.parametrize("run", [True, False])
@pytest.mark.parametrize("policy", ["cqc", "fifo", "chain"])
def test_a_query_that_is_added_finds_the_rows_of_before(policy: str, run: bool) -> None:
    made = queries()
    graph = SharedGraph()
    graph.add(made["totals"])
    network = Network(graph, policy)
    before(network)
    if run:
        network.run()
    for name in LATER:
        network.add(made[name])
    after(network)
    check(network, made)


def test_a_query_that_is_new_after_a_restart_finds_them_too(tmp_path: Path) -> None:
    made = queries()
    graph = SharedGraph()
    graph.add(made["totals"])
    graph.add(made["best"])
    store = Folder(tmp_path)
    network = Network(graph, store=store)
    before(network)
    network.run()
    saved = network.snapshot()
    whole = SharedGraph()
    for query in made.values():
        whole.add(query)
    restored = Network(whole, store=store)
    restored.restore(saved)
    after(restored)
    check(restored, made)


def check(network: Network, made: dict[str, Query]) -> None:
    found = {name: result_table(made[name], network.take(name)) for name in LATER}
    assert {name: set(zip(*table.to_pydict().values(), strict=True)) for name, table in found.items()} == WANTED

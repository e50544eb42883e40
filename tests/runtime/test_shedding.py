"""Load shedding in a network: the share, the choice of rows, what is never shed, and scaled counts."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from headgate.connectors.registry import connectors
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.runtime import Network
from headgate.sql import Catalog, SqlError

STREAM = "CREATE STREAM s (a INT, b INT) USING json OPTIONS (path 'unused');"


def declared(text: str) -> dict[str, Query]:
    catalog = Catalog(None, "UTC", connectors())
    catalog.execute(STREAM + text)
    return dict(catalog.queries)


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(range(count), pa.int32()), "b": pa.array([1] * count, pa.int32())})


def run(queries: dict[str, Query], shed: dict[str, float], batches: int = 10, size: int = 37) -> Network:
    graph = SharedGraph()
    for name, query in queries.items():
        graph.add(replace(query, shed=shed.get(name, 0.0)))
    network = Network(graph, "fifo")
    for _ in range(batches):
        network.push("s", rows(size))
    network.run()
    return network


def results(network: Network, query: str) -> pa.Table:
    return pa.Table.from_batches([result.rows for result in network.take(query)])


def test_the_share_is_shed_and_counted_and_others_get_all_rows() -> None:
    queries = declared(
        "CREATE QUERY p WITH (accuracy = '50%') AS SELECT a FROM s WHERE a >= 0;"
        "CREATE QUERY q AS SELECT b FROM s WHERE b > 0;"
    )
    network = run(queries, {"p": 0.3})
    assert len(results(network, "q")) == 370
    assert len(results(network, "p")) == 370 - 111
    figures = network.metrics()["queries"]
    assert (figures["p"]["offered"], figures["p"]["shed"]) == (370, 111)
    assert figures["q"]["shed"] == 0


def test_nothing_is_shed_without_accuracy_and_never_more_than_it_allows() -> None:
    queries = declared(
        "CREATE QUERY p AS SELECT a FROM s WHERE a >= 0;"
        "CREATE QUERY q WITH (accuracy = '90%') AS SELECT b FROM s WHERE b > 0;"
    )
    network = run(queries, {"p": 0.9, "q": 0.9}, batches=7, size=13)
    assert len(results(network, "p")) == 91
    assert len(results(network, "q")) == 91 - 9


def test_an_operator_that_another_query_needs_too_is_not_shed() -> None:
    queries = declared(
        "CREATE QUERY p WITH (accuracy = '10%') AS SELECT a FROM s WHERE b > 0;"
        "CREATE QUERY q AS SELECT a FROM s WHERE b > 0;"
    )
    network = run(queries, {"p": 0.5})
    assert len(results(network, "p")) == len(results(network, "q")) == 370


def test_rows_of_the_lowest_utility_go_first() -> None:
    queries = declared("CREATE QUERY p WITH (accuracy = '50%', utility = 'a % 10') AS SELECT a FROM s WHERE a >= 0;")
    network = run(queries, {"p": 0.5}, batches=1, size=100)
    assert sorted(value % 10 for value in results(network, "p").column(0).to_pylist()) == sorted([5, 6, 7, 8, 9] * 10)


def test_rows_without_utility_are_chosen_by_chance() -> None:
    queries = declared("CREATE QUERY p WITH (accuracy = '50%') AS SELECT a FROM s WHERE a >= 0;")
    found = {tuple(results(run(queries, {"p": 0.5}, 1, 100), "p").column(0).to_pylist()) for _ in range(3)}
    assert len(found) == 3


@pytest.mark.parametrize("scaled", [True, False])
def test_counts_and_sums_are_scaled_on_request(scaled: bool) -> None:
    queries = declared(
        f"CREATE QUERY p WITH (accuracy = '50%', scaled = {scaled}) AS"
        " SELECT count(*) AS n, sum(b) AS total, max(b) AS most FROM s;"
    )
    network = run(queries, {"p": 0.5}, 1, 100)
    (last,) = results(network, "p").slice(0, 1).select(["n", "total", "most"]).to_pylist()
    assert last == ({"n": 100, "total": 100, "most": 1} if scaled else {"n": 50, "total": 50, "most": 1})


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("utility = 'a'", "utility is about rows that are shed"),
        ("accuracy = 0.5, utility = 'c + 1'", "unknown column c"),
        ("accuracy = 0.5, utility = 'CAST(a AS STRING)'", "it must be a number or a condition"),
        ("accuracy = 0.5, scaled = 'perhaps'", "write true or false"),
    ],
)
def test_mistakes_are_refused_with_one_line(option: str, message: str) -> None:
    with pytest.raises(SqlError, match=message.replace("+", r"\+")):
        declared(f"CREATE QUERY p WITH ({option}) AS SELECT a FROM s WHERE a > 0;")

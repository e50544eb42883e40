"""The workloads of `headgate bench kafka`, and the age of records."""

from __future__ import annotations

import pytest

from headgate.bench.kafka import RUNS, TOPICS, work_of
from headgate.bench.kafka_topics import due
from headgate.connectors.registry import connectors
from headgate.sql import Catalog


@pytest.mark.parametrize("name", RUNS)
def test_queries_of_a_workload(name: str) -> None:
    work = work_of(name)
    catalog = Catalog(connectors=connectors())
    for stream in work.streams:
        catalog.execute(
            f"CREATE STREAM {stream} (ts TIMESTAMP, location STRING, temperature INT, humidity INT, arrived DOUBLE,"
            " WATERMARK FOR ts AS ts - INTERVAL 1 SECOND) USING rate"
        )
    for query, select in work.queries.items():
        catalog.execute(f"CREATE QUERY {query} AS {select}")
    assert len(work.streams) <= TOPICS
    assert set(work.classes) == set(work.queries) == set(catalog.queries)
    assert all("arrived" in query.schema.names for query in catalog.queries.values())
    assert len({query.sql for query in catalog.queries.values()}) == len(work.queries)


def test_when_a_record_is_due() -> None:
    assert due({"arrived": 12.5}) == 12.5
    end = "1970-01-01T00:00:10.000Z"
    assert due({"arrived": 9.5, "w": {"start": "x", "end": end}}) == 11.0, "the watermark passes a second after the end"
    assert due({"arrived": 11.5, "w": {"start": "x", "end": end}}) == 11.5

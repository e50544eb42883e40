"""Lanes by class: which streams share one, and whose batch is next."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from headgate.graph.queries import Query
from headgate.spark.turns import LaneTurns, groups_by_class, streams_of
from headgate.sql import Catalog

SCRIPT = """
CREATE CLASS critical WITH (priority = 6);
CREATE CLASS report WITH (priority = 1);
CREATE CLASS standard WITH (priority = 3);
CREATE STREAM a (v INT) USING parquet OPTIONS (path 'a');
CREATE STREAM b (v INT) USING parquet OPTIONS (path 'b');
CREATE STREAM c (v INT) USING parquet OPTIONS (path 'c');
CREATE STREAM d (v INT) USING parquet OPTIONS (path 'd');
CREATE STREAM e (v INT) USING parquet OPTIONS (path 'e');
"""


def _read(queries: Iterable[Query]) -> list[str]:
    return sorted({stream for query in queries for stream in streams_of(query)})


def _groups(queries: str) -> list[tuple[tuple[str, ...], str]]:
    catalog = Catalog()
    catalog.execute(SCRIPT + queries)
    known = dict(catalog.queries).values()
    return [(group.streams, group.cls.name) for group in groups_by_class(_read(known), known)]


def test_streams_are_grouped_by_the_highest_class_that_reads_them() -> None:
    found = _groups("""
        CREATE QUERY p CLASS report AS SELECT v FROM a;
        CREATE QUERY q CLASS report AS SELECT v FROM b;
        CREATE QUERY r CLASS critical AS SELECT v FROM b WHERE v > 1;
        CREATE QUERY s CLASS standard AS SELECT v FROM c;
        CREATE QUERY t CLASS report AS SELECT v FROM d UNION ALL SELECT v FROM e;
    """)
    assert found == [(("b",), "critical"), (("c",), "standard"), (("a", "d", "e"), "report")]


def test_streams_of_one_query_stay_together() -> None:
    found = _groups("""
        CREATE QUERY p CLASS report AS SELECT v FROM a UNION ALL SELECT v FROM b;
        CREATE QUERY q CLASS critical AS SELECT v FROM b;
        CREATE QUERY r CLASS report AS SELECT v FROM c UNION ALL SELECT v FROM a;
        CREATE QUERY s CLASS report AS SELECT v FROM d UNION ALL SELECT v FROM e;
    """)
    assert found == [(("a", "b", "c"), "critical"), (("d", "e"), "report")]


def test_lanes_that_always_wait_get_time_by_their_weights() -> None:
    random, turns = Random(7), LaneTurns()
    weights = {"critical": 6.0, "standard": 3.0, "report": 1.0}
    used = dict.fromkeys(weights, 0.0)
    for _ in range(10_000):
        lane, seconds = turns.next(weights), random.expovariate(5.0)
        turns.used(lane, seconds, weights)
        used[lane] += seconds
    total = sum(used.values())
    for lane, weight in weights.items():
        assert abs(used[lane] / total - weight / 10) < 0.01


def test_a_lane_that_was_idle_saves_nothing_up_and_is_next() -> None:
    turns = LaneTurns()
    weights = {"critical": 6.0, "report": 1.0}
    for _ in range(100):
        turns.used(turns.next({"report": 1.0}), 1.0, weights)
    order = []
    for _ in range(14):
        order.append(turns.next(weights))
        turns.used(order[-1], 1.0, weights)
    assert order[0] == "critical"
    assert order.count("report") == 2

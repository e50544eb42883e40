"""Queries with the same meaning have the same plan, however they are written, and share operators in one graph."""

from __future__ import annotations

import pytest

from headgate.graph.shared import SharedGraph
from tests.sql.scripts import bound, declared, kinds, planned

SAME = [
    (
        "SELECT ts FROM sensors WHERE temperature > 5 AND humidity = 1",
        "SELECT ts FROM sensors WHERE humidity = 1 AND temperature > 5",
    ),
    ("SELECT ts FROM sensors WHERE temperature > 5", "SELECT ts AS moment FROM sensors AS s WHERE 5 < s.Temperature"),
    ("SELECT ts FROM sensors WHERE temperature > 5", "SELECT ts FROM sensors WHERE NOT temperature <= 2 + 3"),
    (
        "SELECT ts FROM sensors WHERE temperature BETWEEN 1 AND 3",
        "SELECT ts FROM sensors WHERE temperature <= 3 AND 1 <= temperature",
    ),
    ("SELECT ts FROM sensors WHERE temperature > 5", "SELECT ts FROM (SELECT * FROM sensors) WHERE temperature > 5"),
    (
        "SELECT ts FROM sensors WHERE temperature > 5",
        "WITH a AS (SELECT ts, temperature AS t FROM sensors) SELECT ts FROM a WHERE t > 5",
    ),
    (
        "SELECT ts FROM sensors WHERE temperature > 5",
        "SELECT ts FROM (SELECT ts, temperature FROM sensors WHERE temperature > 5)",
    ),
    ("SELECT ts FROM sensors WHERE temperature > 5 AND true", "SELECT ts FROM sensors WHERE temperature > 5"),
    ("SELECT ts FROM sensors WHERE temperature > 5 OR false", "SELECT ts FROM sensors WHERE temperature > 5 AND 1 = 1"),
    ("SELECT temperature + 1 AS a FROM sensors", "SELECT 1 + temperature AS b FROM sensors"),
    (
        "SELECT CAST(temperature AS BIGINT) > 5 AS a FROM sensors",
        "SELECT CAST(temperature AS BIGINT) > 5L AS a FROM sensors",
    ),
    (
        "SELECT ts FROM sensors WHERE ts > TIMESTAMP '2024-01-01'",
        "SELECT ts FROM sensors WHERE ts > '2024-01-01 00:00:00'",
    ),
    (
        "SELECT count(*) AS n FROM sensors GROUP BY window(ts, '1 minute')",
        "SELECT count(1) AS m FROM sensors GROUP BY window(ts, '60 seconds')",
    ),
    (
        "SELECT window(ts, '1 minute') AS w, max(temperature) AS m FROM sensors GROUP BY window(ts, '1 minute')",
        "SELECT window(at, '1 minute', '1 minute', '0 seconds') AS w, max(x) AS m"
        " FROM (SELECT ts AS at, temperature AS x FROM sensors) GROUP BY 1",
    ),
    (
        "SELECT location, count(*) AS n FROM sensors GROUP BY location HAVING count(*) > 3",
        "SELECT * FROM (SELECT location, count(*) AS n FROM sensors GROUP BY location) WHERE n > 3",
    ),
    ("SELECT ts FROM fire", "SELECT ts FROM sensors WHERE temperature > 35"),
    (
        "SELECT location FROM sensors UNION ALL SELECT location FROM smoke",
        "SELECT l FROM (SELECT location AS l, ts FROM sensors UNION ALL SELECT location, at FROM smoke)",
    ),
    (
        "SELECT s.ts FROM sensors s JOIN smoke k ON k.location = s.location"
        " AND k.at BETWEEN s.ts AND s.ts + INTERVAL 5 SECONDS",
        "SELECT s.ts FROM sensors s, smoke k"
        " WHERE s.ts >= k.at - INTERVAL 5 SECONDS AND s.location = k.location AND s.ts <= k.at",
    ),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_equal_plans(first: str, second: str) -> None:
    assert planned(first).text == planned(second).text


DIFFERENT = [
    ("SELECT ts FROM sensors WHERE temperature > 5", "SELECT ts FROM sensors WHERE temperature >= 5"),
    ("SELECT ts FROM sensors WHERE temperature > 5", "SELECT ts FROM sensors WHERE humidity > 5"),
    ("SELECT ts, location FROM sensors", "SELECT location, ts FROM sensors"),
    (
        "SELECT count(*) AS n FROM sensors GROUP BY window(ts, '1 minute')",
        "SELECT count(*) AS n FROM sensors GROUP BY window(ts, '2 minutes')",
    ),
    (
        "SELECT count(location) AS n FROM sensors GROUP BY window(ts, '1 minute')",
        "SELECT count(*) AS n FROM sensors GROUP BY window(ts, '1 minute')",
    ),
    (
        "SELECT count(DISTINCT location) AS n FROM sensors GROUP BY window(ts, '1 minute')",
        "SELECT count(location) AS n FROM sensors GROUP BY window(ts, '1 minute')",
    ),
]


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_different_plans(first: str, second: str) -> None:
    assert planned(first).text != planned(second).text


def test_a_graph_holds_equal_parts_once() -> None:
    catalog = declared()
    catalog.execute(
        """
        CREATE QUERY a AS SELECT ts FROM sensors WHERE temperature > 5 AND humidity = 1;
        CREATE QUERY b AS SELECT location FROM sensors WHERE humidity = 1 AND temperature > 5;
        CREATE QUERY c AS SELECT w, n FROM counts WHERE n > 10;
        """
    )
    graph = SharedGraph()
    for name in ("a", "b", "counts", "c"):
        graph.add(catalog.queries[name])
    # One source, one select for a and b with a project each, one aggregate for counts and c.
    assert sorted(n.kind for n in graph.operators.values()) == sorted(
        ["source", "select", "project", "project", "aggregate", "select", "project"]
    )


def test_a_query_over_a_query_keeps_its_state_whole() -> None:
    catalog = declared()
    over = bound("SELECT n FROM counts WHERE location = 'a'", catalog)
    assert catalog.queries["counts"].plan in set(over.plan.walk())


def test_a_split_is_shared_by_its_branches() -> None:
    catalog = declared()
    catalog.execute("CREATE SPLIT OF sensors INTO hot WHEN temperature > 30, cold WHEN temperature < 0, mild OTHERWISE")
    plans = [catalog.query(name + "s", f"SELECT ts FROM {name}").plan for name in ("hot", "cold", "mild")]
    splits = {node for plan in plans for node in plan.walk() if node.kind == "split"}
    assert len(splits) == 1
    assert all(kinds(plan) == ["source", "split", "select", "project"] for plan in plans)
    assert len({plan.text for plan in plans}) == 3

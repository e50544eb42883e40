"""The key by which a sink replaces rows must tell the groups of the query apart."""

from __future__ import annotations

import pytest

from headgate.connectors.registry import connectors, open_sink
from headgate.connectors.row_key import key_problem, mentioned
from headgate.spark.results import SinkError
from headgate.sql import Catalog
from tests.connectors.declared import clause

ADD = "key {} does not identify the rows: other groups would replace them; {}"
ALL = "select every column of GROUP BY and name it in the key"


@pytest.mark.parametrize(
    ("select", "key", "wanted"),
    [
        ("SELECT a, b, count(*) AS n FROM s GROUP BY a, b", "a, b", None),
        ("SELECT a, b AS c, count(*) AS n FROM s GROUP BY a, b", "a", ADD.format("a", "add c to the key")),
        ("SELECT a, count(*) AS n FROM s GROUP BY a, b", "a", ADD.format("a", ALL)),
        ("SELECT a, b, count(*) AS n FROM s GROUP BY a, b", "n", ADD.format("n", "add a to the key")),
        ("SELECT upper(a) AS u, count(*) AS n FROM s GROUP BY upper(a)", "u", None),
        ("SELECT CAST(v AS STRING) AS t, count(*) AS n FROM s GROUP BY v HAVING count(*) > 1", "T", None),
        ("SELECT concat(a, b) AS t, count(*) AS n FROM s GROUP BY a, b", "t", None),
        (
            "SELECT * FROM (SELECT a, b, sum(v) AS v FROM s GROUP BY a, b) WHERE v > 3",
            "b",
            ADD.format("b", "add a to the key"),
        ),
        ("SELECT count(*) AS n FROM s", "n", None),
        ("SELECT a, b FROM s", "a", None),
    ],
)
def test_whether_a_key_identifies_rows(select: str, key: str, wanted: str | None) -> None:
    catalog = Catalog(connectors=connectors())
    catalog.execute("CREATE STREAM s (a STRING, b STRING, v INT) USING rate")
    catalog.execute(f"CREATE QUERY q INTO noop AS {select}")
    assert key_problem(catalog.queries["q"], [name.strip() for name in key.split(",")]) == wanted


def test_a_key_by_sql_counts_the_columns_that_it_names() -> None:
    catalog = Catalog(connectors=connectors())
    catalog.execute("CREATE STREAM s (a STRING, b STRING) USING rate")
    options = clause({"kafka.bootstrap.servers": "h:1", "topic": "t", "key": "concat(A, '-b')"})
    catalog.execute(f"CREATE QUERY q INTO kafka {options} AS SELECT a, b, count(*) AS n FROM s GROUP BY a, b")
    query = catalog.queries["q"]
    assert mentioned("concat(A, '-b')", query) == ["a"]
    with pytest.raises(SinkError, match=r"^query q: sink kafka: key a does not identify the rows: .* add b to"):
        open_sink(None, query, query.sinks[0], "run")

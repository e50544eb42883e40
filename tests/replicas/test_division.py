"""Which queries send rows across an exchange, which send partial results, and which cannot be divided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.connectors.registry import connectors
from headgate.graph.as_json import read, written
from headgate.graph.operators import Stamp
from headgate.graph.queries import Query
from headgate.spark.exchange import divided, division_under, divisions
from headgate.spark.placement import Placement
from headgate.spark.placing import place
from headgate.sql import Catalog
from tests.replicas.harness import apart, sends_rows

STREAMS = """
CREATE STREAM s (ts TIMESTAMP, k STRING, n INT, x DOUBLE, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
  USING json OPTIONS (path 'in');
CREATE STREAM u (ut TIMESTAMP, uk STRING, m BIGINT, WATERMARK FOR ut AS ut - INTERVAL 5 SECONDS)
  USING json OPTIONS (path 'in');
"""
W = "window(ts, '10 seconds')"
COUNTS = f"(SELECT {W} AS w, k, count(*) AS c FROM s GROUP BY {W}, k)"
SUMS = f"(SELECT {W} AS w, k, count(*) AS c, sum(n) AS d FROM s GROUP BY {W}, k)"
VALUES = f"(SELECT {W} AS w, n, count(*) AS c FROM s GROUP BY {W}, n)"
LATER = "b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS"
NEAR = "ut BETWEEN ts AND ts + INTERVAL 5 SECONDS"


def query(text: str) -> Query:
    catalog = Catalog(None, "UTC", connectors())
    catalog.execute(STREAMS)
    return catalog.query("q", text)


PARTS = {
    # What the fragments send: rows, or partial results.
    f"SELECT DISTINCT w, c FROM {COUNTS}": "rows0",
    f"SELECT DISTINCT w, k, c FROM {COUNTS}": "",
    f"SELECT a.w FROM {COUNTS} a JOIN {COUNTS} b ON a.w = b.w AND a.k = b.k": "",
    # One side may stay where the key of its stream takes it.
    f"SELECT a.w FROM {COUNTS} a JOIN {VALUES} b ON a.w = b.w AND a.k = CAST(b.c AS STRING)": "rows0",
    f"SELECT a.w FROM {COUNTS} a JOIN {VALUES} b ON a.w = b.w AND a.c = b.c": "rows0 rows1",
    # Equal rows are sent once, unless they are needed by different keys.
    f"SELECT a.k FROM {COUNTS} a JOIN {COUNTS} b ON a.w = b.w AND a.c = b.c AND a.k <> b.k": "rows0",
    f"SELECT a.k FROM {SUMS} a JOIN {SUMS} b ON a.w = b.w AND a.c = b.d AND a.d > b.c AND a.k <> b.k": "rows0 rows1",
    f"SELECT a.n FROM s a JOIN s b ON a.k = upper(b.k) AND {LATER}": "rows0",
    f"SELECT a.n FROM s a JOIN s b ON a.k = b.k AND {LATER}": "",
    # Catalyst computes it where the rows enter.
    f"SELECT a.n FROM s a JOIN s b ON a.k = soundex(b.k) AND {LATER}": "rows0",
    f"SELECT a.n FROM s a JOIN s b ON soundex(a.k) = soundex(reverse(b.k)) AND {LATER}": "rows0",
    f"SELECT n FROM s JOIN u ON CAST(k AS BIGINT) = m AND {NEAR}": "rows0",
    f"SELECT n, count(*) AS c FROM s JOIN u ON k = uk AND {NEAR} GROUP BY n, {W}": "0",
    f"SELECT DISTINCT w, z FROM (SELECT w, c % 2 AS z, count(*) AS d FROM {COUNTS} GROUP BY w, c % 2)": "0",
    f"SELECT DISTINCT w, d FROM (SELECT w, c % 2 AS z, count(*) AS d FROM {COUNTS} GROUP BY w, c % 2)": "0 rows1",
    # All rows must come together; the groups below need not.
    "SELECT k, c FROM (SELECT k, c, row_number() OVER (ORDER BY c DESC) AS r FROM"
    " (SELECT k, count(*) AS c FROM s GROUP BY k)) WHERE r <= 3": "rows0",
    f"SELECT w, k FROM {COUNTS} UNION ALL SELECT w, CAST(n AS STRING) FROM {VALUES}": "rows0",
    f"SELECT {W} AS w, count(*) AS c FROM s GROUP BY {W} UNION ALL SELECT w, c FROM {COUNTS}": "0 rows1",
    # No order among the rows of replicas.
    f"SELECT count(*) AS d FROM {COUNTS} GROUP BY rows_window(4), c": "",
    f"SELECT w, c, first(k) AS k FROM {COUNTS} GROUP BY w, c": "",
    # Changes of current rows, between two watermarks.
    "SELECT s.n FROM s JOIN (SELECT 10 / m AS d FROM u GROUP BY 10 / m) c ON s.x = c.d": "",
    "SELECT s.n FROM s JOIN (SELECT k, count(*) AS q FROM s GROUP BY k) c ON upper(s.k) = c.k": "rows0",
    "SELECT p.c, r.q FROM (SELECT window_time(w) AS t, d, c FROM"
    f" (SELECT {W} AS w, 10 / n AS d, count(*) AS c FROM s GROUP BY {W}, 10 / n)) p"
    " JOIN (SELECT 10 / m AS d, count(*) AS q FROM u GROUP BY 10 / m) r ON p.d = r.d": "0 rows1",
    # The order of rows that have crossed.
    f"SELECT w, c, first(k) AS k FROM (SELECT a.w, a.c, a.k FROM {COUNTS} a JOIN {VALUES} b ON a.w = b.w AND a.c = b.c)"
    " GROUP BY w, c": "",
    # All rows of a moment.
    f"SELECT n FROM s JOIN u ON {NEAR}": "",
    f"SELECT DISTINCT {W} AS w FROM s": "",
    "SELECT count(*) AS c FROM s GROUP BY session_window(ts, '5 seconds')": "",
    "SELECT count(*) AS c FROM s GROUP BY session_window(ts, '5 seconds'), 10 / n": "rows0",
}


@pytest.mark.parametrize("text", PARTS, ids=range(len(PARTS)))
def test_the_fragments_of_a_query(text: str) -> None:
    given = query(text)
    division = divided(given)
    assert " ".join(part.name.removeprefix("q/") for part in division.fragments) == PARTS[text]
    assert sends_rows(division) == ("rows" in PARTS[text])
    for part in division.parts:
        assert divided(part).parts == (part,), "a part is not divided again"
        assert read(written(part)) == part
    # A placement tells how the query is divided under it.
    for way in divisions(given):
        assert division_under(given, apart(way.parts, 2)) == way
    assert division_under(given, place([given], 2)).fragments == ()


def test_a_placement_of_other_fragments_is_refused() -> None:
    given = query(f"SELECT DISTINCT w, c FROM {COUNTS}")
    routes = {name: {} for name in ("q", "q/rows0", "q/rows7")}
    with pytest.raises(ValueError, match="query q was divided at other exchanges"):
        division_under(given, Placement(2, routes))


def test_keys_that_may_fail_are_computed_before_the_exchange() -> None:
    given = divided(query(f"SELECT n FROM s JOIN u ON CAST(k AS BIGINT) = m AND {NEAR}"))
    [stamp] = [node for node in given.fragments[0].plan.walk() if isinstance(node, Stamp)]
    assert [key.text for key in stamp.keys] == ["cast(#1):int64"]
    route = apart(given.parts, 2).routes["q"]["q/rows0"]
    assert [key.text for key in route.keys] == [f"#{len(stamp.input.schema)}"]


def test_rows_with_weights_do_not_cross() -> None:
    text = "SELECT count(*) AS c FROM s GROUP BY session_window(ts, '5 seconds'), 10 / n"
    given = query(text)
    scaled = replace(given, spec=replace(given.spec, scaled=True))
    assert sends_rows(divided(given))
    assert divided(scaled).parts == (scaled,)

"""For which rows the value of an expression that Catalyst computes matters: selections, and branches of expressions."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headgate.spark.required_columns import foreign_uses
from headgate.sql import Catalog


@pytest.mark.parametrize(
    ("select", "guards"),
    [
        ("SELECT md5(x) AS m FROM s", [[]]),
        ("SELECT md5(x) AS m FROM s WHERE v > 1", ["gt(#1, 1)"]),
        ("SELECT v FROM s WHERE v > 1 AND md5(x) > 'a'", ["gt(#1, 1)"]),
        (
            "SELECT CASE WHEN v = 1 THEN md5(x) WHEN v = 2 THEN sha1(x) ELSE crc32(x) END AS m FROM s",
            ["eq(#1, 1)", "is_not_true(eq(#1, 1)) eq(#1, 2)", "is_not_true(eq(#1, 1)) is_not_true(eq(#1, 2))"],
        ),
        ("SELECT CASE WHEN v = 1 THEN 'a' WHEN md5(x) = 'b' THEN 'c' END AS m FROM s", ["is_not_true(eq(#1, 1))"]),
        ("SELECT IF(v = 1, md5(x), NULL) AS m FROM s", ["eq(#1, 1)"]),
        ("SELECT coalesce(x, md5(x)) AS m FROM s", ["is_null(#0)"]),
        ("SELECT nvl2(v, md5(x), sha1(x)) AS m FROM s", ["is_not_null(#1)", "is_null(#1)"]),
        ("SELECT v = 1 OR md5(x) = 'b' AS m FROM s", ["is_not_true(eq(#1, 1))"]),
        ("SELECT v = 1 AND md5(x) = 'b' AS m FROM s", ["is_not_false(eq(#1, 1))"]),
        ("SELECT CASE WHEN v = 1 THEN md5(x) END AS m, md5(x) AS n FROM s", ["eq(#1, 1)", []]),
        ("SELECT count(md5(x)) FILTER (WHERE v = 1) AS n FROM s", ["eq(#1, 1)"]),
        ("SELECT max(v) FILTER (WHERE md5(x) > 'a') AS m, count(sha1(x)) AS n FROM s WHERE v > 2", ["gt(#1, 2)"] * 2),
    ],
)
def test_guards(select: str, guards: list[str | list[str]]) -> None:
    catalog = Catalog(lambda sql, schema: pa.string())
    catalog.execute("CREATE STREAM s (x STRING, v INT) USING json OPTIONS (path 'x')")
    uses = foreign_uses([catalog.query("q", select)])
    found = [" ".join(_plain(each.text) for each in use.guard) or [] for use in uses]
    assert sorted(map(str, found)) == sorted(map(str, guards))


def _plain(text: str) -> str:
    return text.replace(":int32", "").replace(":bool", "").replace(":string", "")

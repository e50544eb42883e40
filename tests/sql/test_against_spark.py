"""A bound expression, written back as Spark SQL, has the value, type and name that Spark gives the original text."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.graph.expressions import Expr
from headgate.graph.queries import Stream
from headgate.spark.types import spark_schema, to_arrow
from headgate.sql import Catalog
from headgate.sql.context import Context
from headgate.sql.dialect import parse_select
from headgate.sql.errors import Script
from headgate.sql.expressions import ExpressionBinder
from headgate.sql.foreign import spark_text
from headgate.sql.relation import reading
from headgate.sql.scope import Scope
from headgate.sql.sources import stream_source
from tests.oracle.spark_side import small_session

pytestmark = pytest.mark.spark

DDL = (
    "CREATE STREAM s (a INT, b BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), t STRING, u BOOLEAN, y DATE, ts TIMESTAMP,"
    " n TIMESTAMP_NTZ, r ARRAY<INT>, g MAP<STRING, INT>, st STRUCT<x: INT, v: STRING>, z SMALLINT) USING rate"
)
ROWS = (
    "SELECT * FROM VALUES"
    " (1, 2L, 1.5D, 2.5F, 12.34BD, 'abc', true, DATE'2024-02-29', TIMESTAMP'2024-03-31 01:30:00',"
    " TIMESTAMP_NTZ'2024-01-31 10:20:30.5', array(1, 2), map('a', 1), named_struct('x', 7, 'v', 'w'), 3S),"
    " (-7, 3L, -0.5D, 1.25F, -1.05BD, ' Xyz''s ', false, DATE'2023-12-31', TIMESTAMP'1999-12-31 23:59:59.999999',"
    " TIMESTAMP_NTZ'2000-01-01 00:00:00', array(5, 6), map('b', 2), named_struct('x', -1, 'v', null), -4S),"
    " (null, null, null, null, null, null, null, null, null, null, null, null, null, null)"
    " AS s(a, b, d, f, m, t, u, y, ts, n, r, g, st, z)"
)

# Each is bound, written again in Spark SQL with all its casts, and must then give Spark's answer to the first text.
EXPRESSIONS = """
a + b * 2 - 1
a - b - 1
a | b & 3 ^ 2
4 | 1 & 2
abs(a) || 5 + 1
t || 'x' || a
a << 2 | 1
-a * -2
- a + b
~a & 7
a % 3 = 1 OR u AND NOT a > 2
NOT a = 1 AND u
NOT u OR u
a = 1 IS NULL
(a = 1) = u
a BETWEEN 1 AND 2 OR b > 2
a NOT BETWEEN 1 AND 2
a IN (1, 2L, 3.5)
a NOT IN (1, -7)
t IN ('abc', null)
t LIKE 'a%'
t NOT LIKE '%z\\'s%'
t LIKE '_bc'
t LIKE 'a!%' ESCAPE '!'
t ILIKE 'ABC'
t RLIKE '^[a-c]+$'
a <=> NULL
a IS DISTINCT FROM 1
a IS NOT DISTINCT FROM 1
u IS TRUE
u IS NOT FALSE
a / 2
a DIV 2
b % 2
m + 1
m * 1.5
m / 3
m - a
a + 1.50
d + m
f + 1
f * d
a + 1S
z + 1S
z * 2
b + 2147483648
CASE WHEN a > 0 THEN 'p' WHEN a < 0 THEN 'n' ELSE t END
CASE a WHEN 1 THEN m WHEN 2 THEN 5 END
CASE WHEN u THEN a ELSE 2.5 END
if(u, a, b)
coalesce(a, b, 0)
nullif(a, 1)
nvl2(a, t, 'none')
greatest(a, b, d)
least(a, 2)
CAST(a AS STRING)
CAST(d AS INT)
CAST(m AS DECIMAL(5, 1))
TRY_CAST(t AS INT)
CAST(y AS TIMESTAMP)
CAST(ts AS DATE)
int(d)
string(m)
a::bigint + 1
y + INTERVAL 1 DAY
y + 3
y - INTERVAL 2 MONTHS
ts + INTERVAL '1:30' MINUTE TO SECOND
ts - INTERVAL 1 DAY
ts + INTERVAL 1 MONTH
n + INTERVAL '1-1' YEAR TO MONTH
ts - TIMESTAMP '2024-01-01 00:00:00'
y - DATE '2024-01-01'
ts > '2024-01-01'
ts > DATE '2024-01-01'
y = '2024-02-29'
INTERVAL 1 HOUR 30 MINUTES
INTERVAL '2 days 3 hours'
extract(SECOND FROM n)
extract(YEAR FROM y)
extract(DAYOFWEEK FROM y)
date_part('quarter', y)
timestampadd(HOUR, a, n)
datediff(y, DATE '2024-01-01')
substring(t, 2)
substring(t FROM 2 FOR 1)
substr(t, -2, 1)
trim(t)
trim(BOTH 'ac' FROM t)
ltrim('a', t)
rtrim('c', t)
position('b' IN t)
overlay(t PLACING 'Q' FROM 2)
upper(t) || lower(t)
length(t) + 1
concat(t, a, u)
r[0] + r[1]
g['a']
g.a
st.x + 1
st.v
array(a, 2)[1]
named_struct('k', a, 'l', t).k
struct(a, t AS w).w
size(r)
'it''s' || "a""b"
'tab\\there'
r'\\d+'
X'1F'
1e3
.5
5.
12345678901
1.5BD
2L
-2147483648
-9223372036854775808
DATE '2024-02-29'
TIMESTAMP '2024-02-29 12:00:00.5+02:00'
TIMESTAMP_NTZ '2024-02-29'
NULL
true
""".strip().split("\n")

NAMED = """
a
st.x
a + 1
a * (b - 2)
count(*)
count(DISTINCT a)
sum(a) FILTER (WHERE b > 1)
first(a, true)
upper(t)
CAST(a AS STRING)
CAST(a + 1 AS STRING)
a = 1 AND NOT u
a IS NULL
a IS NOT NULL
-a
max(st.x)
avg(a) + 1
'x'
5
""".strip().split("\n")


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    return small_session(spark)


@pytest.fixture(scope="module")
def rows(session: Any) -> Any:
    schema = spark_schema(_stream().schema)
    frame = session.createDataFrame(session.sql(ROWS).collect(), schema)
    frame.createOrReplaceTempView("s")
    return frame


def _stream() -> Stream:
    catalog = Catalog()
    catalog.execute(DDL)
    return catalog.streams["s"]


def _bound(expression: str) -> Expr:
    script = Script(f"SELECT {expression}", "x")
    relation = reading(stream_source(_stream())).called("s")
    return ExpressionBinder(Context(), script, Scope(relation)).bind(parse_select(script).expressions[0])


def test_meaning_and_types(rows: Any) -> None:
    names = _stream().schema.names
    wanted, given = [], []
    for i, expression in enumerate(EXPRESSIONS):
        written = spark_text(_bound(expression), lambda c: names[c.index])
        wanted.append(f"{expression} AS e{i}")
        given.append(f"{written} AS e{i}")
    first, second = rows.selectExpr(*wanted), rows.selectExpr(*given)
    for i, expression in enumerate(EXPRESSIONS):
        types = [to_arrow(frame.schema[i].dataType) for frame in (first, second)]
        assert (expression, types) == (expression, [_bound(expression).type] * 2)
    for left, right in zip(first.collect(), second.collect(), strict=True):
        assert dict(zip(EXPRESSIONS, left, strict=True)) == dict(zip(EXPRESSIONS, right, strict=True))


def test_names(rows: Any, session: Any) -> None:
    catalog = Catalog()
    catalog.execute(DDL)
    given, wanted = {}, {}
    for i, expression in enumerate(NAMED):
        select = f"SELECT {expression} FROM s"
        given[expression] = catalog.query(f"q{i}", select).schema.names
        wanted[expression] = tuple(session.sql(select).columns)
    assert given == wanted

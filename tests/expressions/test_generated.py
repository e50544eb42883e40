"""Random typed expressions over random rows, compared with Spark on the same rows."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.logger import PySparkLogger

from headgate.expressions.errors import EvaluationError
from headgate.expressions.functions import fallible
from headgate.graph.expressions import Foreign
from headgate.operators.evaluate import evaluate, select
from headgate.sql.catalog import Catalog
from tests.expressions.record import condition, spark_columns
from tests.expressions.tables import alike, batch_of, bound, shown

COLUMNS = (
    "i INT, j INT, l BIGINT, t TINYINT, d DOUBLE, e DOUBLE, x DECIMAL(10,2), y DECIMAL(18,6), s STRING, u STRING, "
    "p BOOLEAN, q BOOLEAN, dt DATE, dv DATE, ts TIMESTAMP, tv TIMESTAMP"
)
KINDS = {"i": "int", "j": "int", "l": "int", "t": "int", "d": "double", "e": "double", "x": "decimal", "y": "decimal"}
KINDS |= {
    "s": "string",
    "u": "string",
    "p": "boolean",
    "q": "boolean",
    "dt": "date",
    "dv": "date",
    "ts": "time",
    "tv": "time",
}

_integers = st.one_of(st.integers(-5, 5), st.integers(-(2**31), 2**31 - 1), st.sampled_from([-(2**31), 2**31 - 1]))
_doubles = st.one_of(
    st.sampled_from([0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.0, -1.5, 2.5, 1e-7, 1e20]),
    st.floats(-1e6, 1e6, allow_nan=False, width=32),
)
_texts = st.one_of(
    st.sampled_from(
        ["", " ", "a", "A,b", "12", "-3.5", " 7 ", "true", "2024-02-29", "héllo", "日本", "a%b_c", "x\ny", "ß"]
    ),
    st.text("ab,% é", max_size=6),
)
_dates = st.one_of(
    st.sampled_from([date(2024, 2, 29), date(1970, 1, 1), date(2023, 12, 31), date(2000, 1, 31)]),
    st.dates(date(1900, 1, 1), date(2100, 1, 1)),
)
_times = st.one_of(
    st.sampled_from([datetime(2024, 3, 10, 7, 30), datetime(2024, 11, 3, 5, 30), datetime(1969, 12, 31, 23, 59, 59)]),
    st.datetimes(datetime(1900, 1, 1), datetime(2036, 1, 1)),
)
_row = st.tuples(
    *(st.none() | v for v in (_integers, st.integers(-3, 3))),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.integers(-128, 127),
    *(st.none() | _doubles for _ in range(2)),
    st.none() | st.decimals(-99999999, 99999999, places=2),
    st.none() | st.decimals(-1000, 1000, places=6),
    *(st.none() | _texts for _ in range(2)),
    *(st.none() | st.booleans() for _ in range(2)),
    *(st.none() | _dates for _ in range(2)),
    *(st.none() | _times for _ in range(2)),
)


def _column(kind: str) -> st.SearchStrategy[str]:
    return st.sampled_from([name for name, of in KINDS.items() if of == kind])


def _literal(kind: str) -> st.SearchStrategy[str]:
    quoted = _texts.map(lambda t: "'" + t.replace("\\", "\\\\").replace("'", "\\'") + "'")
    return {
        "int": st.integers(-20, 20).map(str),
        "double": st.sampled_from(["0.0D", "-1.5D", "1e10D", "double('nan')", "2.5D"]),
        "decimal": st.decimals(-100, 100, places=2).map(str),
        "string": quoted,
        "boolean": st.sampled_from(["true", "false"]),
        "date": _dates.map(lambda d: f"date'{d}'"),
        "time": _times.map(lambda t: f"timestamp'{t}'"),
    }[kind]


# For each kind, templates that build it: {kind} stands for an expression of that kind.
FORMS = {
    "boolean": [
        "({int} = {int})", "({int} < {decimal})", "({double} >= {double})", "({double} < {int})",
        "({decimal} <> {decimal})", "({string} > {string})", "({date} <= {date})", "({time} > {time})",
        "({boolean} AND {boolean})", "({boolean} OR {boolean})", "(NOT {boolean})", "({int} IS NULL)",
        "({double} IS NOT NULL)", "({int} IN ({int}, 1, NULL))", "({string} LIKE '%a%')", "({string} LIKE 'a_')",
        "({string} RLIKE '[a-c]+')", "({boolean} <=> {boolean})", "({double} <=> {double})",
        "({int} BETWEEN {int} AND {int})", "contains({string}, 'a')", "isnan({double})", "({double} IN (1.0D, 0.0D))",
        "CASE WHEN {boolean} THEN {boolean} ELSE {boolean} END", "coalesce({boolean}, {boolean})",
        "({date} < {time})", "try_cast({string} AS BOOLEAN)",
    ],
    "int": [
        "try_add({int}, {int})", "try_subtract({int}, {int})", "try_multiply({int}, {int})", "({int} % 7)",
        "pmod({int}, 5)", "({int} div 3)", "length({string})", "instr({string}, 'a')", "year({date})",
        "month({time})", "day({date})", "hour({time})", "minute({time})", "dayofweek({date})", "weekofyear({date})",
        "datediff({date}, {date})", "CASE WHEN {boolean} THEN {int} ELSE {int} END", "if({boolean}, {int}, {int})",
        "coalesce({int}, {int})", "nullif({int}, {int})", "greatest({int}, {int})", "least({int}, {int}, 3)",
        "try_cast({string} AS INT)", "try_cast({double} AS INT)", "try_cast({decimal} AS BIGINT)", "({int} & 255)",
        "unix_seconds({time})", "cast(sign({int}) AS INT)", "nvl2({string}, {int}, {int})", "ascii({string})",
        "locate('b', {string})", "quarter({date})", "dayofyear({date})",
    ],
    "double": [
        "({double} + {double})", "({double} - {double})", "({double} * {double})", "try_divide({double}, {double})",
        "try_divide({int}, {int})", "({int} * 1.5D)", "abs({double})", "(- {double})", "sqrt({double})",
        "round({double}, 2)", "round({double})", "bround({double}, 1)", "CASE WHEN {boolean} THEN {double} END",
        "coalesce({double}, {int})", "greatest({double}, {double})", "least({double}, {double})",
        "nanvl({double}, {double})", "try_cast({string} AS DOUBLE)", "cast({decimal} AS DOUBLE)",
        "cast({int} AS FLOAT)", "exp(cast(pmod({int}, 5) AS INT))", "ln({double})", "atan2({double}, {double})",
    ],
    "decimal": [
        "try_add({decimal}, {decimal})", "try_subtract({decimal}, {int})", "try_multiply({decimal}, {decimal})",
        "try_divide({decimal}, {decimal})", "({decimal} % 3.5)", "(- {decimal})", "abs({decimal})",
        "round({decimal}, 1)", "coalesce({decimal}, {decimal})", "if({boolean}, {decimal}, {int})",
        "greatest({decimal}, {decimal})", "try_cast({string} AS DECIMAL(10,3))", "try_cast({int} AS DECIMAL(12,2))",
        "try_cast({double} AS DECIMAL(20,4))", "try_cast({decimal} AS DECIMAL(8,1))", "floor({decimal})",
        "ceil({decimal})", "bround({decimal}, 0)",
    ],
    "string": [
        "upper({string})", "lower({string})", "trim({string})", "reverse({string})", "concat({string}, {string})",
        "({string} || '-')", "substring({string}, 2, 2)", "substring({string}, -2)", "left({string}, 2)",
        "right({string}, 2)", "lpad({string}, 4, 'xy')", "rpad({string}, 4, '*')", "replace({string}, 'a', 'bb')",
        "split_part({string}, ',', 1)", "translate({string}, 'ab', 'x')", "concat_ws('-', {string}, {string})",
        "coalesce({string}, {string})", "CASE WHEN {boolean} THEN {string} WHEN {boolean} THEN {string} END",
        "nullif({string}, 'a')", "cast({int} AS STRING)", "cast({decimal} AS STRING)", "cast({date} AS STRING)",
        "cast({time} AS STRING)", "cast({boolean} AS STRING)", "date_format({time}, 'yyyy-MM-dd HH:mm')",
        "regexp_replace({string}, '[ab]', '.')", "regexp_extract({string}, '(a+)', 1)", "initcap({string})",
        "repeat({string}, 2)", "substring({string}, cast(pmod({int}, 4) AS INT), 2)", "greatest({string}, {string})",
    ],
    "date": [
        "date_add({date}, cast(pmod({int}, 100) AS INT))", "last_day({date})",
        "add_months({date}, cast(pmod({int}, 30) AS INT))", "trunc({date}, 'MM')", "cast({time} AS DATE)",
        "coalesce({date}, {date})", "if({boolean}, {date}, {date})",
        "try_cast({string} AS DATE)", "greatest({date}, {date})", "({date} + 3)", "({date} - INTERVAL 2 DAYS)",
    ],
    "time": [
        "date_trunc('HOUR', {time})", "date_trunc('DAY', {time})", "date_trunc('MONTH', {time})",
        "cast({date} AS TIMESTAMP)", "({time} + INTERVAL 90 MINUTES)", "({time} - INTERVAL 1 DAY)",
        "coalesce({time}, {time})", "least({time}, {time})", "try_cast({string} AS TIMESTAMP)",
        "if({boolean}, {time}, {date})", "date_trunc('WEEK', {time})",
        "from_utc_timestamp({time}, 'America/New_York')",
    ],
}  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn, kind: str, depth: int) -> str:
    """An expression of a kind, with a maximal depth."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(_column(kind) if draw(st.integers(0, 3)) else _literal(kind))
    form = draw(st.sampled_from(FORMS[kind]))
    text, rest = "", form
    while "{" in rest:
        before, _, tail = rest.partition("{")
        inner, _, rest = tail.partition("}")
        text += before + draw(expressions(inner, depth - 1))
    return text + rest


@st.composite
def many(draw: st.DrawFn) -> list[str]:
    kinds = draw(st.lists(st.sampled_from(sorted(FORMS)), min_size=12, max_size=25))
    return [draw(expressions(kind, 3)) for kind in kinds]


def _rows(values: list[tuple[Any, ...]], catalog: Catalog) -> pa.RecordBatch:
    schema = catalog.streams["t"].schema.arrow()
    columns = list(zip(*values, strict=True))
    arrays = [pa.array([_exact(v, f.type) for v in column], f.type) for column, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _exact(value: Any, type_: pa.DataType) -> Any:
    if isinstance(value, Decimal):
        return value.quantize(Decimal(1).scaleb(-type_.scale))
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    return value


def _spark_values(spark: Any, rows: pa.RecordBatch, texts: list[str]) -> list[list[str] | str]:
    """The values, or the condition of the error; failing expressions are found by bisection."""
    try:
        return [shown(column) for column in spark_columns(spark, rows, texts)]
    except Exception as error:
        if len(texts) == 1:
            return [condition(error)]
    middle = len(texts) // 2
    return _spark_values(spark, rows, texts[:middle]) + _spark_values(spark, rows, texts[middle:])


def _compare(spark: Any, zone: str, values: list[tuple[Any, ...]], texts: list[str]) -> None:
    catalog = Catalog(time_zone=zone)
    catalog.execute(f"CREATE STREAM t ({COLUMNS}) USING rate;")
    rows = _rows(values, catalog)
    spark.conf.set("spark.sql.session.timeZone", zone)
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    try:
        theirs = _spark_values(spark, rows, texts)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for text, wanted in zip(texts, theirs, strict=True):
        (expr,) = bound(catalog, [text])
        assert not any(isinstance(e, Foreign) for e in expr.walk()), f"{text} is left to Spark"
        try:
            ours: list[str] | str = shown(evaluate(expr, batch_of(rows)))
        except EvaluationError as error:
            assert fallible(expr), text
            ours = error.condition
        if isinstance(wanted, str) or isinstance(ours, str):
            assert ours == wanted, f"{text}\n  headgate {ours}\n  spark    {wanted}"
        else:
            same = len(ours) == len(wanted) and all(map(alike, ours, wanted))
            assert same, f"{text}\n  headgate {ours}\n  spark    {wanted}"


# Each step of shrinking would ask Spark again, and the message names the expression already.
_PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
_QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.spark
@settings(max_examples=max(10, settings().max_examples // 5), phases=_PHASES, suppress_health_check=_QUIET)
@given(values=st.lists(_row, min_size=1, max_size=12), texts=many(), zone=st.sampled_from(["UTC", "America/New_York"]))
def test_generated_expressions(spark: Any, values: list[tuple[Any, ...]], texts: list[str], zone: str) -> None:
    _compare(spark, zone, values, texts)


@settings(suppress_health_check=_QUIET)
@given(
    values=st.lists(_row, min_size=1, max_size=12), texts=st.lists(expressions("boolean", 3), min_size=1, max_size=4)
)
def test_selections_in_any_cut(values: list[tuple[Any, ...]], texts: list[str]) -> None:
    """Selecting by all predicates at once, one after the other, and row by row keeps the same rows."""
    catalog = Catalog()
    catalog.execute(f"CREATE STREAM t ({COLUMNS}) USING rate;")
    rows = _rows(values, catalog)
    predicates = bound(catalog, texts)
    at_once = select(batch_of(rows), predicates).materialized().rows
    chained = batch_of(rows)
    for predicate in predicates:
        chained = select(chained, [predicate])
    singly = [select(batch_of(rows.slice(n, 1)), predicates).materialized().rows for n in range(rows.num_rows)]
    # As texts, since NaN is not equal to itself.
    kept = [repr(row) for row in at_once.to_pylist()]
    assert [repr(row) for row in chained.materialized().rows.to_pylist()] == kept
    assert [repr(row) for part in singly for row in part.to_pylist()] == kept

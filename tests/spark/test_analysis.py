"""Spark's analyzer as a source of types, and types from Arrow to Spark and back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.graph import types as t
from headgate.graph.types import Schema, sql_name
from headgate.spark.analysis import AnalysisError, Analyzer
from headgate.spark.types import UnsupportedType, spark_schema, to_arrow, to_spark

COLUMNS = Schema.of(("a", t.INT), ("j", t.STRING), ("ts", t.TIMESTAMP))

plain = st.sampled_from(
    [t.BOOLEAN, t.TINYINT, t.SMALLINT, t.INT, t.BIGINT, t.FLOAT, t.DOUBLE, t.STRING, t.BINARY, t.DATE, t.TIMESTAMP]
) | st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s)))
any_type = st.recursive(
    plain | st.just(t.TIMESTAMP_NTZ) | st.just(t.INTERVAL),
    lambda inner: (
        inner.map(pa.list_)
        | st.tuples(plain, inner).map(lambda pair: pa.map_(*pair))
        | st.lists(inner, min_size=1, max_size=3).map(lambda ts: pa.struct([(f"m{i}", x) for i, x in enumerate(ts)]))
    ),
    max_leaves=5,
)


@given(any_type)
def test_a_type_survives_the_way_to_spark_and_back(type_: pa.DataType) -> None:
    assert to_arrow(to_spark(type_)) == type_


@given(any_type)
def test_our_names_of_types_are_those_of_spark(type_: pa.DataType) -> None:
    assert to_spark(type_).simpleString().upper().replace(" ", "") == sql_name(type_).upper().replace(" ", "")


def test_a_type_that_spark_does_not_have() -> None:
    with pytest.raises(UnsupportedType, match="uint8"):
        to_spark(pa.uint8())
    with pytest.raises(UnsupportedType):
        spark_schema(Schema.of(("x", pa.uint64())))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("from_json(j, 'x INT, l ARRAY<STRING>')", pa.struct([("x", t.INT), ("l", pa.list_(t.STRING))])),
        ("sha2(j, 256)", t.STRING),
        ("map(j, a)", pa.map_(t.STRING, t.INT)),
        ("ts - ts", t.INTERVAL),
        ("aggregate(sequence(1, a), 0L, (x, y) -> x + y)", t.BIGINT),
        ("arrays_zip(array(1), array(a))", pa.list_(pa.struct([("0", t.INT), ("1", t.INT)]))),
        ("size(arrays_zip(array(1, 2), array(3)))", t.INT),
        ("CASE WHEN a > 3 THEN element_at(array(1, 2), 5) END", t.INT),
    ],
)
def test_the_type_of_an_expression(spark: Any, sql: str, type_: pa.DataType) -> None:
    assert Analyzer(lambda: spark).type_of(sql, COLUMNS) == type_


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("max(a)", "INVALID_WHERE_CONDITION"),
        ("explode(array(a))", "UNSUPPORTED_GENERATOR"),
        ("row_number() OVER (ORDER BY a)", "WINDOW_FUNCTION"),
        ("nosuch(a)", "UNRESOLVED_ROUTINE"),
        ("b + 1", "UNRESOLVED_COLUMN"),
        ("a +", "PARSE_SYNTAX_ERROR"),
        ("parse_json(j)", "VARIANT"),
        ("make_ym_interval(1, 2)", "INTERVAL YEAR TO MONTH"),
        # Java exceptions that PySpark does not convert.
        ("collate(j, 'bogus')", "COLLATION_INVALID_NAME"),
        ("schema_of_json('{')", "JsonEOFException: Unexpected end-of-input"),
        ("upper(" * 3000 + "j" + ")" * 3000, "StackOverflowError|FAILED_TO_PARSE_TOO_COMPLEX"),
        # They raise when the plan is made, whatever the rows are.
        ("element_at(array(1, 2), 5)", "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"),
        ("str_to_map('a:1,a:2')", "DUPLICATED_MAP_KEY"),
        ("sequence(1, 1000000000000)", "COLLECTION_SIZE_LIMIT_EXCEEDED"),
        ("lpad('x', 2147483647, 'ab')", "OutOfMemoryError"),
        ("timestamp_seconds(CAST(1.23456789 AS DECIMAL(20, 8)))", "Rounding necessary"),
    ],
)
def test_an_expression_that_is_not_one_value_a_row_is_refused_in_one_line(
    spark: Any, sql: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AnalysisError, match=reason) as refusal:
        Analyzer(lambda: spark).type_of(sql, COLUMNS)
    assert "\n" not in str(refusal.value)
    assert "SQLSTATE" not in str(refusal.value)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.spark
def test_errors_of_spark_keep_their_type_after_an_analysis(spark: Any) -> None:
    """A plain logger under the name of PySpark's made every error with a place in the SQL a TypeError."""
    from pyspark.errors import ArithmeticException

    with pytest.raises(AnalysisError):
        Analyzer(lambda: spark).type_of("b + 1", COLUMNS)
    with pytest.raises(ArithmeticException):
        spark.sql("SELECT 1 / 0").collect()


def test_the_session_is_started_when_it_is_first_needed() -> None:
    made: list[int] = []

    def session() -> Any:
        made.append(1)
        raise RuntimeError("no Spark here")

    analyzer = Analyzer(session)
    assert not made
    with pytest.raises(RuntimeError):
        analyzer.type_of("a", COLUMNS)
    assert made == [1]

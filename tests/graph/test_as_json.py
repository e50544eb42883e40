"""Queries as JSON: what is read is what was written, each node once, and what is not known is refused."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.connectors import callback
from headgate.graph import types as t
from headgate.graph.as_json import GraphFormatError, read, written
from headgate.graph.expressions import Call, Foreign, Literal
from headgate.graph.queries import Query, Sink
from headgate.sql import Catalog
from headgate.sql.errors import SqlError
from tests.oracle.cases import FILES, load_all
from tests.oracle.headgate_side import compiled
from tests.sql.scripts import declared


def _names(query: Query) -> list[tuple[str, ...]]:
    return [node.schema.names for node in query.plan.walk()]


def _same(query: Query) -> None:
    text = written(query)
    again = read(text)
    assert again == query
    # Equality of operators leaves out names, nullability and time limits; the text has them.
    assert again.plan.text == query.plan.text
    assert _names(again) == _names(query)
    assert written(again) == text


CASES = load_all()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_query_of_the_oracle(file: Any) -> None:
    tried = 0
    for case in (case for case in CASES if case.file == file):
        try:
            # The type that Spark would give does not matter here.
            query = compiled(case, lambda *_: t.BIGINT)
        except SqlError:
            continue
        _same(query)
        tried += 1
    assert tried


def test_a_query_with_all_its_clauses() -> None:
    catalog = declared()
    catalog.execute("CREATE CLASS urgent WITH (priority = 9);")
    sinks = (Sink("parquet", {"path": "out", "compression": "zstd"}), callback(print))
    query = catalog.query("q", "SELECT * FROM " + next(iter(catalog.streams)), "urgent", sinks)
    _same(query)
    assert read(written(query)).sinks == sinks


VALUES: list[tuple[pa.DataType, Any]] = [
    (t.INT, -1),
    (pa.decimal128(38, 0), 10**37),
    (pa.decimal128(10, 2), Decimal("-0.10")),
    (pa.decimal128(38, 38), Decimal("1E-38")),
    (t.DOUBLE, -0.0),
    (t.DOUBLE, math.inf),
    (t.DOUBLE, -math.inf),
    (t.DOUBLE, 5e-324),
    (t.BOOLEAN, True),
    (t.STRING, 'quoted "é" \n \x00 \ud800 日本'),
    (t.BINARY, b"\x00\xff"),
    (t.DATE, date(1, 1, 1)),
    (t.TIMESTAMP, datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
    (t.TIMESTAMP_NTZ, datetime(1, 1, 1)),
    (t.TIME, time(23, 59, 59, 1)),
    (t.INTERVAL, timedelta.min),
    (t.INTERVAL, timedelta.max),
    (t.NULL, None),
    (pa.list_(pa.field("element", t.INT, nullable=False)), [1, None]),
    (pa.map_(t.STRING, pa.struct([("a b", t.DATE)])), [("k", {"a b": date(2024, 2, 29)})]),
    (pa.timestamp("ns", "Europe/Oslo"), None),
]


@pytest.mark.parametrize(("type_", "value"), VALUES, ids=repr)
def test_constants(type_: pa.DataType, value: Any) -> None:
    again = read(written(Literal(type_, value)))
    assert again.text == Literal(type_, value).text
    assert type(again.value) is type(value)
    assert again.type.equals(type_, check_metadata=True)


def test_not_a_number() -> None:
    assert math.isnan(read(written(Literal(t.DOUBLE, math.nan))).value)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.sampled_from([None, UTC])).map(lambda found: found.replace(fold=0))
    | st.dates()
    | st.times().map(lambda found: found.replace(fold=0))
    | st.timedeltas(),
    lambda inside: (
        st.lists(inside) | st.lists(inside).map(tuple) | st.dictionaries(st.text(), inside) | st.frozensets(st.text())
    ),
)


@given(PLAIN)
def test_plain_values(value: Any) -> None:
    again = read(json.loads(written(value)))
    assert again == value
    assert repr(again) == repr(value) or "set" in repr(value)


def test_what_is_not_part_of_the_identity_is_written_too() -> None:
    limited = Call(t.INT, "python", (), "module:function", time_limit=2.5)
    assert read(written(limited)).time_limit == 2.5
    assert read(written(Foreign(t.INT, "size(`a`)", frozenset({3, 1})))).reads == {1, 3}


def test_equal_nodes_of_many_queries_are_written_once() -> None:
    catalog = Catalog()
    catalog.execute(
        "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)"
        " USING parquet OPTIONS (path 'unused');"
    )
    select = "SELECT window(ts, '10 seconds') AS w, k, sum(v) AS n FROM s GROUP BY window(ts, '10 seconds'), k"
    queries = tuple(catalog.query(f"q{n}", select) for n in range(200))
    one, all_ = json.loads(written(queries[0])), json.loads(written(queries))
    assert len(all_["nodes"]) == len(one["nodes"]) + 199, "a query more is one node more"
    again = read(all_)
    assert again == queries
    assert again[0].plan is again[199].plan


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"nodes": [{"class": "Sort", "by": 1}], "value": 1}, "a 'Sort', which this Headgate does not know"),
        ({"nodes": [{"class": "os.system"}], "value": 1}, "'os.system', which this Headgate does not know"),
        ({"nodes": [{"class": "QueryClass", "name": "a"}], "value": 1}, "a QueryClass that this Headgate cannot make"),
        (
            {"nodes": [{"class": "QueryClass", "name": "a", "priority": 1, "colour": "red"}], "value": 1},
            "a QueryClass that this Headgate cannot make: .*colour",
        ),
        ({"nodes": [{"arrow": "int31"}], "value": 1}, "a type 'int31', which"),
        ({"nodes": [], "value": {"complex": [1, 2]}}, "a value of kind 'complex', which"),
    ],
)
def test_what_is_not_known_is_refused(data: Any, message: str) -> None:
    with pytest.raises(GraphFormatError, match=message):
        read(data)


def test_what_is_no_data_cannot_be_written() -> None:
    with pytest.raises(GraphFormatError, match=r"a builtins\.object cannot be written as JSON"):
        written({"a": (object(),)})

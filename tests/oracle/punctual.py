"""Hypothesis strategies for streams of which no row is late, and for static tables.

Their values are those that keys and orders must tell apart: nulls, also as event times, NaN, both zeros, decimals,
nested values, texts that differ only at their ends, and times about a change of the clocks.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headgate.graph import types as t
from headgate.graph.types import sql_name
from tests.oracle.cases import Input
from tests.oracle.generate import START, VALUES

NESTED = pa.struct([pa.field("a", t.INT), pa.field("b", t.STRING)])
LIST = pa.list_(t.INT)
MAP = pa.map_(t.STRING, t.INT)
_LONG = "x" * 300
_INSTANTS = (START + timedelta(minutes=30 * n) for n in range(-3, 4))

MORE: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **VALUES,
    t.DOUBLE: st.sampled_from([0.0, -0.0, float("nan"), 0.25, -0.25, 1e10, float("inf"), float("-inf")]),
    t.FLOAT: st.sampled_from([0.0, -0.0, float("nan"), 1.5, -2.0]),
    t.STRING: st.sampled_from(["", "a", "A", "a ", "é", "e\u0301", "日本", _LONG, _LONG + "y", _LONG + "z"]),
    t.BINARY: st.sampled_from([b"", b"\x00", b"\xff", b"ab"]),
    t.TIMESTAMP: st.sampled_from(list(_INSTANTS)),
    NESTED: st.fixed_dictionaries({"a": st.none() | st.integers(0, 1), "b": st.none() | st.sampled_from(["", "x"])}),
    LIST: st.lists(st.none() | st.integers(0, 2), max_size=2),
    MAP: st.dictionaries(st.sampled_from(["a", "b"]), st.none() | st.integers(0, 2), max_size=1).map(
        lambda found: list(found.items())
    ),
}


@st.composite
def punctual(draw: st.DrawFn, name: str) -> tuple[Input, list[pa.RecordBatch]]:
    """A stream of which no row is late, and its rows in batches."""
    types = draw(st.lists(st.sampled_from(list(MORE)), min_size=1, max_size=4))
    columns = [(f"{name}t", t.TIMESTAMP), (f"{name}k", t.STRING), (f"{name}i", t.INT)]
    columns += [(f"{name}{n}", type_) for n, type_ in enumerate(types)]
    schema = pa.schema(columns)
    batches = []
    for size in draw(st.lists(st.integers(0, 8), min_size=1, max_size=4)):
        rows: list[list[Any]] = []
        for _ in range(size):
            after = draw(st.none() | st.integers(0, 100) | st.integers(0, 12))
            row: list[Any] = [None if after is None else START + timedelta(milliseconds=250 * after)]
            row += [draw(st.none() | st.sampled_from(["a", "b", ""])), draw(st.none() | st.integers(-2, 2))]
            row += [draw(st.none() | MORE[type_]) for type_ in types]
            rows.append(row)
        arrays = [pa.array([row[c] for row in rows], f.type) for c, f in enumerate(schema)]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return Input(name, schema, False, f"{name}t", timedelta(hours=1)), batches


@st.composite
def table(draw: st.DrawFn, name: str) -> tuple[Input, list[pa.RecordBatch]]:
    """A static table and its rows: keys without a partner, with one, and with several."""
    type_ = draw(st.sampled_from(list(VALUES)))
    schema = pa.schema([("k", t.STRING), ("i", t.INT), ("v", type_)])
    row = st.tuples(
        st.none() | st.sampled_from(["a", "b", ""]), st.none() | st.integers(-2, 2), st.none() | VALUES[type_]
    )
    rows = draw(st.lists(row, max_size=5))
    arrays = [pa.array([row[c] for row in rows], f.type) for c, f in enumerate(schema)]
    return Input(name, schema, True), [pa.RecordBatch.from_arrays(arrays, schema=schema)]


def table_declaration(of: Input) -> str:
    columns = ", ".join(f"{f.name} {sql_name(f.type)}" for f in of.schema)
    return f"CREATE TABLE {of.name} ({columns}) USING json OPTIONS (path 'in')"

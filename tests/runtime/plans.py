"""Small query graphs built by hand, and rows for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headgate.graph.expressions import Call, Column, Expr, Literal
from headgate.graph.operators import Aggregate, AggregateCall, Operator, Project, Select, Source, Union, Window
from headgate.graph.queries import Query, QueryClass
from headgate.graph.shared import SharedGraph
from headgate.graph.types import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP, WINDOW, Schema

SCHEMA = Schema.of(("ts", TIMESTAMP), ("k", BIGINT), ("v", DOUBLE))
CRITICAL = QueryClass("critical", 6)
REPORT = QueryClass("report", 1)


def source(stream: str = "s", delay: int = 0) -> Source:
    return Source(SCHEMA, stream, 0, delay)


def above(input: Operator, limit: float, column: int = 2) -> Select:
    return Select(input.schema, input, (compare("gt", column, input, limit),))


def compare(name: str, column: int, input: Operator, value: float) -> Expr:
    type_ = input.schema[column].type
    return Call(BOOLEAN, name, (Column(type_, column), Literal(type_, value)))


def columns(input: Operator, *positions: int) -> Project:
    fields = [input.schema[p] for p in positions]
    return Project(
        Schema(tuple(fields)), input, tuple(Column(f.type, p) for f, p in zip(fields, positions, strict=True))
    )


def failing(input: Operator, function: str) -> Project:
    """A Python function of the value column."""
    return Project(Schema.of(("r", DOUBLE)), input, (Call(DOUBLE, "python", (Column(DOUBLE, 2),), option=function),))


def per_window(input: Operator, seconds: int = 10) -> Aggregate:
    """count and sum of v by k in tumbling windows."""
    window = Window("time", seconds * 1_000_000, seconds * 1_000_000, 0, Column(TIMESTAMP, 0))
    schema = Schema.of(("w", WINDOW), ("k", BIGINT), ("n", BIGINT), ("total", DOUBLE))
    calls = (
        AggregateCall("count", (), BIGINT),
        AggregateCall("sum", (Column(DOUBLE, 2),), DOUBLE),
    )
    return Aggregate(schema, input, (Column(BIGINT, 1),), calls, window)


def both(*parts: Operator) -> Union:
    return Union(parts[0].schema, tuple(parts))


def query(name: str, plan: Operator, cls: QueryClass = REPORT) -> Query:
    return Query(name, plan, plan.schema, cls)


def graph(*queries: Query) -> SharedGraph:
    shared = SharedGraph()
    for each in queries:
        shared.add(each)
    return shared


def rows(count: int, seed: int = 0, start: float = 0.0, step: float = 0.1, keys: int = 5) -> pa.RecordBatch:
    """Rows with rising times; every value is a whole number, so that sums do not depend on their order."""
    random = np.random.default_rng(seed)
    times = ((start + np.arange(count) * step) * 1_000_000).astype(np.int64)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(times, pa.int64()).cast(TIMESTAMP),
            pa.array(random.integers(0, keys, count)),
            pa.array(random.integers(0, 100, count).astype(float)),
        ],
        names=["ts", "k", "v"],
    )


def table(results: Sequence[pa.RecordBatch]) -> list[tuple[object, ...]]:
    """Rows as a sorted list, to compare as multisets."""
    found: list[tuple[object, ...]] = []
    for batch in results:
        found += [tuple(_plain(v) for v in row.values()) for row in batch.to_pylist()]
    return sorted(found, key=repr)


def _plain(value: object) -> object:
    return tuple(value.values()) if isinstance(value, dict) else value

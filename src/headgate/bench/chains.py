"""1,000 operators that do little: 200 queries of five selections each, over a stream of three numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.graph.expressions import Call, Column, Literal
from headgate.graph.operators import Operator, Select, Source
from headgate.graph.queries import Query, QueryClass
from headgate.graph.shared import SharedGraph
from headgate.graph.types import BOOLEAN, DOUBLE, Schema

QUERIES, DEPTH = 200, 5
CLASSES = (QueryClass("critical", 6), QueryClass("normal", 3), QueryClass("report", 1))
STREAM = "s"
SCHEMA = Schema.of(("a", DOUBLE), ("b", DOUBLE), ("c", DOUBLE))


def chains() -> SharedGraph:
    """The queries, in three classes, without shared operators."""
    graph = SharedGraph()
    source = Source(SCHEMA, STREAM)
    for number in range(QUERIES):
        plan: Operator = source
        for depth in range(DEPTH):
            limit = Literal(DOUBLE, 0.05 * depth + number * 1e-5)
            plan = Select(SCHEMA, plan, (Call(BOOLEAN, "gt", (Column(DOUBLE, depth % 3), limit)),))
        graph.add(Query(f"q{number}", plan, SCHEMA, CLASSES[number % 3]))
    return graph


def values(count: int, seed: int = 7) -> pa.RecordBatch:
    """Random rows of the stream."""
    random = np.random.default_rng(seed)
    return pa.RecordBatch.from_arrays([pa.array(random.random(count)) for _ in range(3)], names=list(SCHEMA.names))

"""Four queries over two streams, their rows, and the results that every way of running them must give."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from headgate.graph.queries import Query
from headgate.operators.runner import Runner
from headgate.runtime import Network
from tests.runtime.plans import CRITICAL, above, both, columns, graph, per_window, query, rows, source, table

Rows = list[tuple[object, ...]]


def small() -> tuple[Query, ...]:
    s, t = source("s", 2_000_000), source("t")
    shared = above(s, 30)
    return (
        query("all", s),
        query("high", columns(above(shared, 60), 1, 2), CRITICAL),
        query("windows", per_window(shared)),
        query("both", per_window(both(shared, above(t, 50)))),
    )


@cache
def batches() -> tuple[tuple[str, pa.RecordBatch], ...]:
    """The batches of both streams, in the order in which they are pushed."""
    return tuple((name, rows(200, seed, seed * 20.0)) for seed in range(5) for name in ("s", "t"))


@cache
def expected() -> dict[str, Rows]:
    """The rows of every query, computed without queues, policies or threads."""
    runner = Runner(graph(*small()))
    for stream, batch in batches():
        runner.push(stream, batch)
    runner.finish()
    return {q.name: table(runner.results(q.name).to_batches()) for q in small()}


def results(network: Network) -> dict[str, Rows]:
    """The rows that a network has put out, by query."""
    return {name: table([r.rows for r in network.take(name)]) for name in network.queries}

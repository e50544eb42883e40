"""Headgate's answer to a case: computed by the in-process runner, with the rows cut into batches in several ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import accumulate, zip_longest
from typing import Any

import pyarrow as pa

from headgate.graph.expressions import Expr, Foreign
from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.runner import Runner
from headgate.operators.settings import Settings
from headgate.sql import Catalog
from tests.oracle.answers import Answer
from tests.oracle.cases import Case
from tests.oracle.spark_side import SparkSide

Pushes = Iterator[tuple[str, pa.RecordBatch]]


def compiled(case: Case, type_of: Callable[..., pa.DataType] | None, name: str = "result") -> Query:
    """The case's query, through text and catalog."""
    catalog = Catalog(type_of=type_of, time_zone=case.zone)
    catalog.execute(case.setup, file=str(case.file))
    if case.statements:
        catalog.execute(case.statements + ";", file=str(case.file))
    return catalog.query(name, case.query)


def given(case: Case) -> Pushes:
    """The batches of the file, the streams in turn."""
    for batches in zip_longest(*([(name, b) for b in case.batches[name]] for name in _streams(case))):
        yield from filter(None, batches)


def streams_apart(case: Case) -> Pushes:
    """One stream after the other, the last first: how streams interleave must not matter."""
    for name in reversed(_streams(case)):
        for batch in case.batches[name]:
            yield name, batch


def whole(case: Case) -> Pushes:
    """One batch per stream."""
    for name in _streams(case):
        yield (
            name,
            pa.Table.from_batches(case.batches[name]).combine_chunks().to_batches()[0]
            if any(b.num_rows for b in case.batches[name])
            else case.batches[name][0],
        )


def single_rows(case: Case) -> Pushes:
    """One row per batch."""
    for name, batch in given(case):
        for i in range(batch.num_rows):
            yield name, batch.slice(i, 1)


def cuts(case: Case) -> dict[str, Callable[[Case], Pushes]]:
    """Ways to cut rows into batches that must give the same answer; where the cut decides which rows are late, only the
    file's own batches are used."""
    found: dict[str, Callable[[Case], Pushes]] = {"given": given, "streams apart": streams_apart}
    if case.options.get("late", "keep") == "keep":
        found["whole"] = whole
        if case.options.get("late") == "keep" or not _late_alone(case):
            found["single rows"] = single_rows
    return found


def carrying(case: Case, queries: Sequence[Query], spark: SparkSide) -> Case:
    """The case with rows that carry the columns which Catalyst computes for the queries."""
    extra: dict[str, dict[str, Foreign]] = {}
    for query in queries:
        for stream, exprs in foreign(query.plan).items():
            extra.setdefault(stream, {}).update({e.key: e for e in exprs})
    batches = {stream: _carrying(case.batches[stream], exprs, spark, case.zone) for stream, exprs in extra.items()}
    return replace(case, batches={**case.batches, **batches})


def _carrying(
    batches: list[pa.RecordBatch], exprs: dict[str, Foreign], spark: SparkSide, zone: str
) -> list[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches).combine_chunks()
    batch = rows.to_batches()[0] if rows.num_rows else batches[0]
    columns = spark.compute(batch, [e.sql for e in exprs.values()], [e.type for e in exprs.values()], zone)
    for key, column in zip(exprs, columns, strict=True):
        batch = batch.append_column(key, column)
    starts = accumulate((b.num_rows for b in batches), initial=0)
    return [batch.slice(start, b.num_rows) for start, b in zip(starts, batches, strict=False)]


def answer(case: Case, query: Query, pushes: Pushes, restored: bool = False) -> Answer:
    """The results of a query that runs alone."""
    return answers(case, [query], pushes, restored)[query.name]


def answers(case: Case, queries: Sequence[Query], pushes: Pushes, restored: bool = False) -> dict[str, Answer]:
    """The results of several queries in one graph, over the rows of a case.

    `restored`: after each batch the state moves into a new runner.
    """
    graph = SharedGraph()
    for query in queries:
        graph.add(query)
    settings = settings_of(case)
    runner = Runner(graph, settings)
    read = {source.stream for _, source in graph.sources()}
    for stream, batch in pushes:
        if stream not in read:
            continue
        runner.push(stream, batch)
        if restored:
            snapshot = runner.snapshot()
            runner = Runner(graph, settings)
            runner.restore(snapshot)
    runner.finish()
    return {query.name: Answer.of(runner.results(query.name)) for query in queries}


def settings_of(case: Case) -> Settings:
    """The static tables of a case."""
    tables = {name: pa.Table.from_batches(case.batches[name]) for name, of in case.inputs.items() if of.static}
    return Settings(tables=tables)


def foreign(plan: Operator) -> dict[str, list[Foreign]]:
    """The expressions that Catalyst computes, by the stream whose rows carry them."""
    found: dict[str, dict[str, Foreign]] = {}
    for node in plan.walk():
        for expr in _expressions(node):
            for inside in expr.walk():
                if isinstance(inside, Foreign):
                    below: Operator = node
                    while not isinstance(below, Source):
                        below = below.inputs[0]
                    found.setdefault(below.stream, {})[inside.key] = inside
    return {stream: list(exprs.values()) for stream, exprs in found.items()}


def _streams(case: Case) -> list[str]:
    return [name for name, of in case.inputs.items() if not of.static]


def _late_alone(case: Case) -> bool:
    """Whether a row would be late if each row were a batch of its own."""
    for name in _streams(case):
        of = case.inputs[name]
        if of.time is None:
            continue
        times = [t for b in case.batches[name] for t in b.column(of.time).to_pylist() if t is not None]
        newest = None
        for time in times:
            if newest is not None and time <= newest - of.delay:
                return True
            newest = time if newest is None else max(newest, time)
    return False


def _expressions(value: Any) -> Iterator[Expr]:
    """All expressions in the fields of a node."""
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _expressions(part)
    elif isinstance(value, Operator) or type(value).__module__ == Operator.__module__:
        for f in fields(value):
            inside = getattr(value, f.name)
            if not isinstance(inside, Operator) and not (
                isinstance(inside, tuple) and inside and isinstance(inside[0], Operator)
            ):
                yield from _expressions(inside)

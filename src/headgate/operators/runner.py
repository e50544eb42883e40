"""Runs a graph in this process with all edges direct: for tests and notebooks, without Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from headgate.expressions.keys import flatten, one_chunk
from headgate.graph.operators import Source
from headgate.graph.shared import SharedGraph
from headgate.operators.batch import FOREVER, NEVER, Arrival, Batch
from headgate.operators.columns import renamed
from headgate.operators.contract import LiveOperator, Snapshot
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.operators.windows import highest


@dataclass(frozen=True)
class RunnerSnapshot:
    """The state of a runner: that of each operator, each source's watermark, the results so far."""

    operators: Mapping[int, Snapshot] = field(default_factory=dict)
    watermarks: Mapping[int, int] = field(default_factory=dict)
    results: Mapping[str, tuple[pa.RecordBatch, ...]] = field(default_factory=dict)


class Runner:
    """Runs the queries that a graph holds when the runner is created.

    A pushed batch runs through all queries at once, followed by the stream's watermark: the highest event time so
    far minus the delay. Used by one thread.
    """

    def __init__(self, graph: SharedGraph, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self._queries = graph.queries
        self._operators: dict[int, LiveOperator] = {n: live(node, settings) for n, node in graph.operators.items()}
        self._consumers = {number: graph.consumers(number) for number in self._operators}
        self._users = {number: graph.users(number) for number in self._operators}
        self._outputs = {number: [q.name for q in graph.outputs(number)] for number in self._operators}
        self._sources: dict[str, list[tuple[int, Source]]] = {}
        for number, source in graph.sources():
            self._sources.setdefault(source.stream, []).append((number, source))
        self._watermarks = {number: NEVER for found in self._sources.values() for number, _ in found}
        self._results: dict[str, list[pa.RecordBatch]] = {name: [] for name in self._queries}

    def push(self, stream: str, rows: pa.RecordBatch) -> None:
        """Takes rows of a stream: its declared columns in order, then those that Catalyst computed, by name."""
        if stream not in self._sources:
            known = ", ".join(sorted(self._sources)) or "none"
            raise KeyError(f"no query reads a stream named {stream}; the streams read are: {known}")
        arrival = Arrival.at(time.monotonic(), rows.num_rows)
        for number, source in self._sources[stream]:
            before = self._watermarks[number]
            self._process(number, 0, Batch(rows, arrival, before))
            if source.time is not None:
                newest = highest(rows.column(source.time))
                if newest is not None:
                    self._watermarks[number] = max(before, newest - source.delay)
            self._advance(number, 0, self._watermarks[number])

    def finish(self) -> None:
        """Ends every stream: all open windows are emitted."""
        for number in self._watermarks:
            self._watermarks[number] = FOREVER
            self._advance(number, 0, FOREVER)

    def results(self, query: str) -> pa.Table:
        """The results of a query so far; where rows replace earlier ones, the newest of each identity."""
        found = self._queries[query]
        width = len(found.plan.schema) if found.mode == "update" else found.visible
        schema = pa.schema([pa.field(f.name, f.type) for f in found.plan.schema.fields[:width]])
        rows = pa.Table.from_batches([_under(schema, batch) for batch in self._results[query]], schema)
        if found.mode == "update":
            rows = newest_rows(rows, found.visible)
        return rows.rename_columns(list(found.schema.names))

    @property
    def late_rows(self) -> dict[str, int]:
        """For each query, the number of late rows that its operators dropped."""
        return {
            name: sum(op.late_rows for number, op in self._operators.items() if name in self._users[number])
            for name in self._queries
        }

    @property
    def operators(self) -> Mapping[int, LiveOperator]:
        """The live operators by their numbers in the graph."""
        return self._operators

    def snapshot(self) -> RunnerSnapshot:
        """The state between two batches. It costs what changed since the last snapshot."""
        return RunnerSnapshot(
            {number: op.snapshot() for number, op in self._operators.items()},
            dict(self._watermarks),
            {name: tuple(batches) for name, batches in self._results.items()},
        )

    def restore(self, snapshot: RunnerSnapshot) -> None:
        """Restores the state of another runner of the same graph; called once, before any push."""
        for number, state in snapshot.operators.items():
            self._operators[number].restore(state)
        self._watermarks.update(snapshot.watermarks)
        self._results = {name: list(batches) for name, batches in snapshot.results.items()}

    def _process(self, number: int, port: int, batch: Batch) -> None:
        for out in self._operators[number].process(port, batch):
            self._deliver(number, out)

    def _advance(self, number: int, port: int, watermark: int) -> None:
        batches, passed = self._operators[number].advance(port, watermark)
        for out in batches:
            self._deliver(number, out)
        for consumer, into in self._consumers[number]:
            self._advance(consumer, into, passed)

    def _deliver(self, number: int, batch: Batch) -> None:
        if not (batch.rows.num_rows if batch.mask is None else batch.mask.true_count):
            return
        for name in self._outputs[number]:
            plan = self._queries[name].plan
            rows = renamed(batch.rows, plan.schema)
            taken = Batch(rows, batch.arrival, batch.watermark, batch.mask).materialized()
            if taken.rows.num_rows:
                self._results[name].append(taken.rows)
        for consumer, port in self._consumers[number]:
            self._process(consumer, port, batch)


def _under(schema: pa.Schema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The first columns of a batch with the fields of a schema (nullability may differ between batches)."""
    return pa.RecordBatch.from_arrays(rows.columns[: len(schema)], schema=schema)


def newest_rows(rows: pa.Table, visible: int) -> pa.Table:
    """The last row of each identity (the columns between the visible ones and `deleted`), unless it deletes."""
    flat = flatten([one_chunk(rows.column(i)) for i in range(visible, rows.num_columns - 1)])
    names = [f"k{i}" for i in range(len(flat))]
    places = pa.table([*flat, pa.array(range(rows.num_rows), pa.int64())], [*names, "place"])
    last = places.group_by(names, use_threads=False).aggregate([("place", "max")])
    newest = rows.take(last["place_max"])
    kept = newest.filter(pc.invert(newest.column(rows.num_columns - 1)))
    return kept.select(list(range(visible)))

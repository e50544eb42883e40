"""The newest results of a query, in the driver's memory: what `engine.results` returns."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from headgate.connectors.contract import Guarantee, ResultSink
from headgate.graph.options import OptionDeclaration, OptionSet
from headgate.graph.queries import Query
from headgate.spark.results import DriverWriter, Results

_ROWS = OptionDeclaration(
    "rows",
    "newest rows that `engine.results` keeps, of a query that updates the keys that changed last; default: `results` of"
    " the engine",
    "integer",
    default="10000",
    least=1,
)


class MemorySink(ResultSink):
    """Keeps the newest rows, or the current row of each key of a query that updates."""

    name = "memory"
    about = "the newest rows, as `engine.results` returns them; every query has this sink, also without INTO memory"
    options = OptionSet((_ROWS,))
    replaces_rows = True
    guarantee = Guarantee(
        True,
        "a repeated epoch is recognized; a new process starts empty",
        "tests/connectors/test_sinks.py::test_memory_ignores_an_epoch_that_it_has",
    )
    example = "rows '1000'"

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> MemoryWriter:
        del spark
        assert _ROWS.default is not None
        writer = MemoryWriter(query.schema.arrow(), int(options.get(_ROWS.name, _ROWS.default)))
        writer.follow(run)
        return writer

    def newest(self, options: Mapping[str, str], kept: int) -> int | None:
        return int(options.get(_ROWS.name, kept))


class MemoryWriter(DriverWriter):
    """Keeps the newest `limit` rows of an append query; of an update query, the rows of the `limit` identities that
    changed last.

    `publish` is called by the publisher's thread, `table` from any thread.
    """

    def __init__(self, schema: pa.Schema, limit: int) -> None:
        self._schema = schema
        self._limit = limit
        self._lock = threading.Lock()
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._current: OrderedDict[tuple[str, ...], pa.Table] = OrderedDict()
        self._updates = False
        self._run = ""
        self._epoch = -1
        self.notify: Callable[[Results], None] | None = None
        """Called on the publisher's thread with the results of each epoch, once they can be read."""

    def follow(self, run: str) -> None:
        """Expects epochs of this run from now on; the rows so far stay."""
        with self._lock:
            if run != self._run:
                self._run, self._epoch = run, -1

    def publish(self, results: Results) -> None:
        with self._lock:
            if results.epoch <= self._epoch:
                return
            self._epoch = results.epoch
            if results.identity is not None:
                self._update(results)
            else:
                self._append(results.table)
        if self.notify is not None:
            self.notify(results)

    def table(self) -> pa.Table:
        """The rows that are kept, oldest first."""
        with self._lock:
            parts = list(self._current.values()) if self._updates else list(self._tables)
        if not parts:
            return self._schema.empty_table()
        whole = pa.concat_tables(parts)
        return whole.slice(max(0, whole.num_rows - self._limit))

    def _append(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._rows += table.num_rows
        while self._tables and self._rows - self._tables[0].num_rows >= self._limit:
            self._rows -= self._tables.pop(0).num_rows

    def _update(self, results: Results) -> None:
        """Replaces rows by identity. Reads from the last row, and no more rows than are kept: there may be millions."""
        self._updates = True
        changed: dict[tuple[str, ...], pa.Table | None] = {}
        kept = 0
        for identity, row in _newest_first(results):
            if identity not in changed:
                changed[identity] = row
                kept += row is not None
                if kept == self._limit:
                    # No older row is kept, neither of this epoch nor of earlier ones.
                    self._current.clear()
                    break
        for identity, row in reversed(changed.items()):
            self._current.pop(identity, None)
            if row is not None:
                self._current[identity] = row
        while len(self._current) > self._limit:
            self._current.popitem(last=False)


_SLICE = 4096
"""Rows that are converted to Python at once."""


def _newest_first(results: Results) -> Iterator[tuple[tuple[str, ...], pa.Table | None]]:
    """The rows from the last to the first: the identity of each, and the row itself, or None if it is deleted."""
    assert results.identity is not None
    assert results.deleted is not None
    for stop in range(results.table.num_rows, 0, -_SLICE):
        start = max(0, stop - _SLICE)
        deleted = results.deleted.slice(start, stop - start).to_pylist()
        columns = [column.slice(start, stop - start).to_pylist() for column in results.identity.columns]
        for place in reversed(range(stop - start)):
            identity = tuple(repr(column[place]) for column in columns)
            yield identity, None if deleted[place] else results.table.slice(start + place, 1)

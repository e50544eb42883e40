"""The newest results of a query, in the driver's memory: what `engine.results` shows."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

from headgate.spark.sinks.contract import Results


class MemoryWriter:
    """Keeps the newest `limit` rows of an append query, or the current row of each identity of an update query.

    `publish` is called by the publisher's thread, `table` by anyone's.
    """

    def __init__(self, schema: pa.Schema, limit: int) -> None:
        self._schema = schema
        self._limit = limit
        self._lock = threading.Lock()
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._current: dict[tuple[Any, ...], pa.Table] = {}
        self._updates = False

    def publish(self, results: Results) -> None:
        with self._lock:
            if results.identity is not None:
                self._update(results)
                return
            self._tables.append(results.table)
            self._rows += results.table.num_rows
            while self._tables and self._rows - self._tables[0].num_rows >= self._limit:
                self._rows -= self._tables.pop(0).num_rows

    def table(self) -> pa.Table:
        with self._lock:
            parts = list(self._current.values()) if self._updates else list(self._tables)
        if not parts:
            return self._schema.empty_table()
        whole = pa.concat_tables(parts)
        return whole.slice(max(0, whole.num_rows - self._limit))

    def close(self) -> None:
        """The rows stay readable."""

    def _update(self, results: Results) -> None:
        self._updates = True
        assert results.identity is not None
        assert results.deleted is not None
        keys = list(zip(*(column.to_pylist() for column in results.identity.columns), strict=True))
        if not results.identity.num_columns:
            keys = [()] * results.table.num_rows
        for row, (key, deleted) in enumerate(zip(keys, results.deleted.to_pylist(), strict=True)):
            hashable = tuple(repr(part) for part in key)
            self._current.pop(hashable, None)
            if not deleted:
                self._current[hashable] = results.table.slice(row, 1)

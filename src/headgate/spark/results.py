"""The results of a query in one epoch, and what a sink's writer does with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


class SinkError(ValueError):
    """A sink cannot be opened or written; the message names the query, the place and the reason."""


@dataclass(frozen=True)
class Results:
    """The results of a query in one epoch.

    `table` has the visible columns. For an update query `identity` has the columns that identify each row (a later
    result with the same identity replaces it) and `deleted` marks deleted rows; both are None otherwise.
    """

    query: str
    epoch: int
    table: pa.Table
    identity: pa.Table | None = None
    deleted: pa.ChunkedArray | None = None

    @staticmethod
    def of(query: str, epoch: int, table: pa.Table, visible: int, update: bool) -> Results:
        """Splits the columns of a query's plan into visible columns, identity and `deleted`."""
        if not update:
            return Results(query, epoch, table)
        width = table.num_columns
        identity = table.select(list(range(visible, width - 1)))
        return Results(query, epoch, table.select(list(range(visible))), identity, table.column(width - 1))


class Writer(Protocol):
    """An open sink of one query.

    Called by one thread, with rising epochs. After a restart the same epoch may be published again with the same
    results; a sink that guarantees exactly once then leaves the same outcome as after publishing it once.
    """

    def publish(self, results: Results) -> None: ...

    def close(self) -> None: ...

"""What every sink offers, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


class SinkError(ValueError):
    """A sink cannot take results; the message names the query, the place and the reason."""


@dataclass(frozen=True)
class Results:
    """What a query put out in an epoch.

    `table` has the visible columns. For an update query `identity` has the columns that name each row (a later
    result with the same identity replaces it) and `deleted` tells which rows are gone; both are None otherwise.
    """

    query: str
    epoch: int
    table: pa.Table
    identity: pa.Table | None = None
    deleted: pa.ChunkedArray | None = None

    @staticmethod
    def of(query: str, epoch: int, table: pa.Table, visible: int, update: bool) -> Results:
        """Takes apart what the plan of a query puts out: visible columns, identity, deleted."""
        if not update:
            return Results(query, epoch, table)
        width = table.num_columns
        identity = table.select(list(range(visible, width - 1)))
        return Results(query, epoch, table.select(list(range(visible))), identity, table.column(width - 1))

    @property
    def remaining(self) -> pa.Table:
        """The rows that are not deletions."""
        if self.deleted is None:
            return self.table
        return self.table.filter(pa.compute.invert(self.deleted))


class Writer(Protocol):
    """An open sink of one query. Called by one thread, epochs in rising order; the same epoch may come again
    after a restart, with the same results, and must then leave the same outcome as once."""

    def publish(self, results: Results) -> None: ...

    def close(self) -> None: ...

"""The results of a query in one epoch, and what writes them: a host, Spark's executors or the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headgate.spark.messages import WrittenFile
from headgate.spark.outbox_rows import OutboxRows


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


class Writer(ABC):  # noqa: B024 - each kind has its own abstract methods
    """An open sink of one query. Its class says where the rows are written.

    The publisher calls it on one thread, with rising epochs. After a restart the same epoch may be published again with
    the same results; a sink that guarantees exactly once then leaves the same outcome as after publishing it once.
    """

    def flush(self) -> None:  # noqa: B027 - most writers are done when `publish` returns
        """Returns when everything published is at its destination; called once per epoch, before it is recorded."""

    def revoke(self) -> None:  # noqa: B027 - most writers have nothing to take back
        """Takes back what is published of the present epoch and not flushed, as far as possible: this sink or another
        has failed, and no more epochs follow. Raises nothing, and returns within seconds."""

    def close(self) -> None:  # noqa: B027 - most writers keep nothing open
        """No more epochs follow."""

    def abandon(self) -> None:  # noqa: B027 - most writers share nothing with those of a later start
        """In place of `close`, on another thread, while `publish` or `flush` does not return."""


class DriverWriter(Writer):
    """A sink for few rows, which the driver writes: console, memory, callback."""

    @abstractmethod
    def publish(self, results: Results) -> None: ...


class ExecutorWriter(Writer):
    """A sink that Spark writes: the tasks of its job read the rows from the outbox, and the driver sees none."""

    together: object = None
    """Writers whose values are equal and not None are published by one call of `publish_together` an epoch."""

    @abstractmethod
    def publish(self, rows: OutboxRows) -> None: ...

    def publish_together(self, rows: Sequence[tuple[ExecutorWriter, OutboxRows]]) -> None:
        """Publishes what several writers of a kind have in one epoch; this one is among them."""
        for writer, each in rows:
            writer.publish(each)


class HostWriter(Writer):
    """A folder. Writing has two steps: the host stages files under hidden names, the driver moves them into place.

    A staged file that no commit names is never seen: its attempt at the epoch did not happen.
    """

    @abstractmethod
    def stage(self, results: Results, attempt: str) -> list[WrittenFile]:
        """Writes hidden files, in the host; SinkError if the folder cannot be written from there."""

    @abstractmethod
    def publish(self, results: Results) -> None:
        """Both steps in the driver, for results that a host could not write."""

    def clean(self, epoch: int) -> None:
        """Removes hidden files of this query and run up to an epoch; all that were committed are in place."""

"""What a host does with the results of an epoch: files for folders, the outbox of the checkpoint for all other sinks.

A host makes one `HostWriters` for its plan and calls `deliver` at the end of each epoch, before it answers:

    delivered = writers.deliver(results, dead, epoch, attempt)

The fields of `Delivered` have the names of the `EpochAnswer` fields that they fill, and from there of the `Commit`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headgate.graph.queries import Query
from headgate.spark.bundle import Bundle
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.messages import DEAD, Place, WrittenFile
from headgate.spark.results import HostWriter, Results

INLINE = 1 << 16
"""Rows for the driver are part of the answer up to this many bytes; the driver reads larger results from the outbox,
where they are written anyway, which saves copies between processes."""

_THREADS = 4


@dataclass(frozen=True)
class Delivery:
    """How the hosts of a plan deliver results.

    - `opener`: `module:function`, an `Opener`; named, not imported, since sinks are declared in a layer above
    - `base`: folder that relative paths of sinks start from: the driver's working directory
    - `kept`: newest rows of each query that `engine.results` keeps
    - `dead_letters`: folder for malformed rows
    """

    opener: str
    base: str
    kept: int
    dead_letters: str


@dataclass(frozen=True)
class HostShare:
    """What the hosts do with the results of one query.

    - `folders`: the sinks that they write; None: the driver writes them
    - `driver`: whether a sink needs all rows in the driver
    - `executors`: whether a sink is written by Spark, from the outbox
    - `newest`: rows of an epoch that `engine.results` can return at most; None: all of them
    """

    folders: tuple[HostWriter, ...] | None = ()
    driver: bool = False
    executors: bool = False
    newest: int | None = None


class HostSinks(Protocol):
    """The sinks of a plan as hosts see them."""

    def share(self, query: Query) -> HostShare: ...

    def dead_letters(self) -> HostWriter: ...


Opener = Callable[[Delivery, str, int], HostSinks]
"""Makes the `HostSinks` for a delivery, the identity of the checkpoint (`run`) and the number of the replica."""


@dataclass(frozen=True)
class Delivered:
    """Where the results of an epoch are.

    - `written`: files that the host has written under hidden names; publishing moves them
    - `results`: all rows of a query, in the outbox: for sinks that the driver or Spark's executors write
    - `newest`: its newest rows, for `engine.results`, if no other sink needs rows in the driver
    - `unwritten`: all rows of a query whose folders the host could not write: the driver writes them
    - `rows`: result rows by query; `malformed`: malformed rows by stream
    - `inline`: small results for the driver (Arrow IPC streams): the bytes of the query's part in `results` or `newest`
    """

    written: tuple[WrittenFile, ...] = ()
    results: tuple[tuple[str, Place], ...] = ()
    newest: tuple[tuple[str, Place], ...] = ()
    unwritten: tuple[tuple[str, Place], ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    malformed: Mapping[str, int] = field(default_factory=dict)
    inline: Mapping[str, bytes] = field(default_factory=dict)


class HostWriters:
    """The writers of one host for one plan. Used by one thread; the files of several queries are written in parallel.

    Without a `delivery` the host knows of no sinks: all rows go to the outbox, and the driver writes the folders.
    """

    def __init__(self, delivery: Delivery | None, checkpoint: Checkpoint, run: str, replica: int = 0) -> None:
        self._checkpoint = checkpoint
        self._sinks: HostSinks | None = None
        self._shares: dict[str, HostShare] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "headgate-writer")
        if delivery is not None:
            module, _, name = delivery.opener.partition(":")
            opener: Opener = getattr(importlib.import_module(module), name)
            self._sinks = opener(delivery, run, replica)

    def deliver(
        self, results: Sequence[tuple[Query, pa.Table]], dead: Sequence[pa.RecordBatch], epoch: int, attempt: str
    ) -> Delivered:
        """Makes the results of an epoch durable; `dead` are its malformed rows.

        If a folder cannot be written, the epoch does not fail: the rows go to the outbox, and the driver writes them or
        reports the error. CheckpointError if the outbox cannot be written.
        """
        parts = _Parts(self._checkpoint.bundle("outbox", epoch, attempt))
        shares = [self._share(query) for query, _ in results]
        found = [Results.of(q.name, epoch, table, q.visible, q.mode == "update") for q, table in results]
        # Encoding and writing release the interpreter lock.
        staged = self._threads.map(self._staged, [share.folders for share in shares], found, [attempt] * len(found))
        for (query, table), share, files in zip(results, shares, staged, strict=True):
            parts.add_query(query.name, table, share, files)
        malformed: dict[str, int] = {}
        if dead:
            table = pa.Table.from_batches(dead)
            counts = pc.value_counts(table.column("stream")).to_pylist()
            malformed = {each["values"]: each["counts"] for each in counts}
            writers = None if self._sinks is None else (self._sinks.dead_letters(),)
            parts.add_dead(table, self._staged(writers, Results(DEAD, epoch, table), attempt))
        return parts.close(malformed)

    def close(self) -> None:
        """Ends the threads; does not wait for a file that is being written."""
        self._threads.shutdown(wait=False)

    def _share(self, query: Query) -> HostShare:
        if self._sinks is None:
            return HostShare(None, driver=True, executors=True)
        if query.name not in self._shares:
            self._shares[query.name] = self._sinks.share(query)
        return self._shares[query.name]

    def _staged(self, writers: Sequence[HostWriter] | None, results: Results, attempt: str) -> list[WrittenFile] | None:
        """The files of one query, or None if they are left to the driver."""
        if writers is None:
            return None
        try:
            return [file for writer in writers for file in writer.stage(results, attempt)]
        except Exception:
            # The driver tries again and reports the reason. No commit names the files staged so far: they are removed
            # later.
            return None


class _Parts:
    """Collects where the results of an epoch go."""

    def __init__(self, outbox: Bundle) -> None:
        self._outbox = outbox
        self._written: list[WrittenFile] = []
        self._results: list[tuple[str, Place]] = []
        self._newest: list[tuple[str, Place]] = []
        self._unwritten: list[tuple[str, Place]] = []
        self._rows: dict[str, int] = {}
        self._inline: dict[str, bytes] = {}

    def add_query(self, name: str, table: pa.Table, share: HostShare, staged: list[WrittenFile] | None) -> None:
        self._rows[name] = table.num_rows
        self._written += staged or ()
        whole: tuple[str, Place] | None = None
        data = b""
        if share.driver or share.executors or staged is None:
            whole, data = self._add(name, table)
        if whole is not None and staged is None:
            self._unwritten.append(whole)
        if whole is not None and (share.driver or share.executors):
            self._results.append(whole)
        if not share.driver:
            if whole is None or (share.newest is not None and table.num_rows > share.newest):
                few = table if share.newest is None else table.slice(max(0, table.num_rows - share.newest))
                whole, data = self._add(name, few)
            self._newest.append(whole)
        if len(data) <= INLINE:
            self._inline[name] = data

    def add_dead(self, table: pa.Table, staged: list[WrittenFile] | None) -> None:
        self._written += staged or ()
        if staged is None:
            self._unwritten.append(self._add(DEAD, table)[0])

    def close(self, malformed: Mapping[str, int]) -> Delivered:
        self._outbox.close()
        return Delivered(
            tuple(self._written),
            tuple(self._results),
            tuple(self._newest),
            tuple(self._unwritten),
            self._rows,
            malformed,
            self._inline,
        )

    def _add(self, name: str, table: pa.Table) -> tuple[tuple[str, Place], bytes]:
        data = self._outbox.add(name, table)
        return self._outbox.places[-1], data

"""The memory of waiting batches: exact bytes, a limit, and spilling of the coldest batches above it (003 §3.8).

It counts the bytes of the Arrow allocations that waiting batches keep alive: a slice counts as the whole allocation,
and an allocation that several batches share counts once. Batches inside a unit are not counted; there is at most one
train of them per thread.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from threading import Lock

import pyarrow as pa

from headgate.operators.batch import Batch
from headgate.runtime.queue import QueuedBatch, Roots
from headgate.runtime.store import Store

_LOG = logging.getLogger("headgate.runtime")

LOW = 0.9
"""Above the limit, batches are spilled until memory is down to this share of it, so that choosing is rare."""

RETRY = 5.0
"""Seconds until spilling is tried again after it failed."""

FILE_BYTES = 32 << 20
"""The most bytes written into one file."""


@dataclass(frozen=True, slots=True)
class SpillFile:
    """Batches of one schema that go into one part of the store, and their rows."""

    part: str
    batches: list[QueuedBatch]
    rows: list[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Spill:
    """The batches chosen to leave memory, and the files to write first; batches written earlier need none."""

    batches: list[QueuedBatch]
    files: list[SpillFile]
    store: Store


class Memory:
    """Counts the memory of waiting batches, and spills.

    `lock` is the network's lock. `spill`, `carry_out` and `load` read and write files: they are called without the lock
    and take it themselves where they need it. All other methods are called under the lock and never release it.
    """

    def __init__(self, store: Callable[[], Store], limit: int | None, lock: Lock) -> None:
        self.limit = inf if limit is None else limit
        """Memory limit in bytes; above it, the caller that added a batch calls `spill` after releasing the lock."""
        self.bytes = 0
        self.peak = 0
        self.spilled_bytes = 0
        self.spilled_batches = 0
        self.read_batches = 0
        self.trouble: str | None = None
        """Why the last spill failed."""
        self._make_store = store
        self._store: Store | None = None
        self._lock = lock
        self._roots: dict[tuple[int, int], int] = {}
        self._resident: dict[int, QueuedBatch] = {}
        self._leaving: set[int] = set()
        self._parts: dict[str, int] = {}
        self._orders = 0
        self._name = uuid.uuid4().hex[:12]
        self._files = 0
        self._retry_at = 0.0

    @property
    def store(self) -> Store:
        """The store of spilled batches, created at its first use."""
        if self._store is None:
            self._store = self._make_store()
        return self._store

    # Counting: under the lock -------------------------------------------------------------------------

    def add(self, batch: Batch, readers: int, cls: int, tracked: bool) -> QueuedBatch:
        """Counts a batch that begins to wait. `tracked`: it may share allocations with another waiting batch."""
        order = self._orders = self._orders + 1
        queued = QueuedBatch(batch, readers, cls, order, tracked)
        if tracked:
            self._count(queued)
            return queued
        # The same as `_count`, inlined: this is the hot path.
        queued.bytes = queued.size = size = batch.rows.get_total_buffer_size()
        size += self.bytes
        self.bytes = size
        if size > self.peak:
            self.peak = size
        self._resident[order] = queued
        return queued

    def adopt(self, queued: QueuedBatch) -> None:
        """Takes over a batch whose rows are in a part of the store."""
        assert queued.part is not None
        self._orders += 1
        queued.order = self._orders
        queued.tracked = True
        self._parts[queued.part] = self._parts.get(queued.part, 0) + 1

    def release(self, queued: QueuedBatch) -> None:
        """One reader has read the batch to its end; the last reader frees it."""
        readers = queued.readers = queued.readers - 1
        if readers:
            return
        if queued.batch is not None:
            self._uncount(queued)
        if queued.part is not None:
            self._release_part(queued.part)

    def size(self, queued: QueuedBatch) -> float:
        """The memory attributed to a batch: its own, and its share of each allocation that it shares with others."""
        if queued.roots is None:
            return float(queued.bytes)
        return queued.bytes + sum(root[1] / self._roots[root] for root in queued.roots)

    def count_computed(self, queued: QueuedBatch) -> None:
        """Counts the values that were computed on the rows of a batch and are kept for its other readers."""
        if queued.batch is None or len(queued.batch.computed) == queued.computed:
            return
        # Copied in one step: other readers add values without the lock.
        computed = list(queued.batch.computed.values())
        added = computed[queued.computed :]
        size = sum([int(value.get_total_buffer_size()) for value in added if isinstance(value, pa.Array)])
        queued.computed = len(computed)
        queued.bytes += size
        self.bytes += size

    def _count(self, queued: QueuedBatch) -> None:
        assert queued.batch is not None
        rows = queued.batch.rows
        if queued.tracked:
            queued.roots = roots_of(rows)
            queued.bytes = 0
            queued.size = 0
            known = self._roots
            for root in queued.roots:
                queued.size += root[1]
                readers = known.get(root, 0)
                known[root] = readers + 1
                if not readers:
                    self.bytes += root[1]
        else:
            queued.bytes = queued.size = int(rows.get_total_buffer_size())
            self.bytes += queued.bytes
        if self.bytes > self.peak:
            self.peak = self.bytes
        self._resident[queued.order] = queued

    def _uncount(self, queued: QueuedBatch) -> None:
        if queued.roots is not None:
            known = self._roots
            for root in queued.roots:
                readers = known[root] - 1
                if readers:
                    known[root] = readers
                else:
                    del known[root]
                    self.bytes -= root[1]
            queued.roots = None
        self.bytes -= queued.bytes
        queued.bytes = queued.computed = 0
        queued.batch = None
        del self._resident[queued.order]

    # Spilling -----------------------------------------------------------------------------------------

    def spill(self) -> None:
        """Without the lock: above the limit, spills the coldest batches until memory is below it again.

        If the store cannot be written, rows stay in memory above the limit: nothing is lost, and `trouble` says why.
        """
        target = LOW * self.limit
        with self._lock:
            planned = self._plan_excess(target) if self.bytes > self.limit else None
        while planned is not None and self.carry_out(planned):
            with self._lock:
                planned = self._plan_excess(target)

    def _plan_excess(self, target: float) -> Spill | None:
        if self.bytes <= target or time.monotonic() < self._retry_at:
            return None
        return self.plan_spill(self._resident.values(), self.bytes - int(target))

    def plan_spill(self, candidates: Iterable[QueuedBatch], need: int) -> Spill | None:
        """Under the lock: chooses the coldest of the candidates to free at least `need` bytes if possible.

        The coldest batches wait for the sink, then for the lowest class; among these the newest come first: a queue is
        read from its oldest end, so they are needed last. A batch that was written before is not written again.
        """
        chosen: list[QueuedBatch] = []
        for queued in sorted(candidates, key=_coldness):
            if need <= 0:
                break
            if queued.pins or queued.order in self._leaving or queued.batch is None:
                continue
            chosen.append(queued)
            need -= queued.size
        if not chosen:
            return None
        self._leaving.update(queued.order for queued in chosen)
        return Spill(chosen, self.files_of(queued for queued in chosen if queued.part is None), self.store)

    def carry_out(self, spill: Spill) -> int:
        """Without the lock: writes the files of a planned spill, then frees its batches; returns the number freed.

        A batch that was pinned or released meanwhile, or written by a snapshot, is left as it is.
        """
        written: list[SpillFile] = []
        error: OSError | None = None
        try:
            for file in spill.files:
                spill.store.write(file.part, file.rows)
                written.append(file)
        except OSError as failed:
            error = failed
            _LOG.error("%s; rows stay in memory above the limit until it works again", error)
        with self._lock:
            self._leaving.difference_update(queued.order for queued in spill.batches)
            self.trouble = None if error is None else str(error)
            if error is not None:
                self._retry_at = time.monotonic() + RETRY
            for file in written:
                self.spilled_bytes += sum(queued.size for queued in file.batches)
                self.written(file)
            freed = 0
            for queued in spill.batches:
                if queued.batch is not None and queued.part is not None and not queued.pins:
                    self._uncount(queued)
                    freed += 1
            self.spilled_batches += freed
            return freed

    def files_of(self, batches: Iterable[QueuedBatch]) -> list[SpillFile]:
        """Under the lock: the files that batches are written into: one schema each, limited in size."""
        open_files: dict[pa.Schema, SpillFile] = {}
        room: dict[pa.Schema, int] = {}
        files: list[SpillFile] = []
        for queued in batches:
            assert queued.batch is not None
            rows = queued.batch.rows
            size = int(rows.get_total_buffer_size())
            file = open_files.get(rows.schema)
            # Dictionaries differ between batches.
            alone = any(pa.types.is_dictionary(field.type) for field in rows.schema)
            if file is None or alone or room[rows.schema] < size:
                self._files += 1
                # A name that no part had before, in this process or another.
                file = open_files[rows.schema] = SpillFile(f"{self._name}-{self._files}", [], [])
                files.append(file)
                room[rows.schema] = FILE_BYTES
            file.batches.append(queued)
            file.rows.append(rows)
            room[rows.schema] -= size
        return files

    def written(self, file: SpillFile) -> None:
        """Under the lock: a file was written. It is kept for its batches that still have readers and no other part."""
        kept = 0
        for index, queued in enumerate(file.batches):
            if queued.part is None and queued.readers > 0:
                queued.part, queued.index = file.part, index
                kept += 1
        if kept:
            self._parts[file.part] = kept
        else:
            self.store.discard(file.part)

    def _release_part(self, part: str) -> None:
        left = self._parts[part] - 1
        if left:
            self._parts[part] = left
        else:
            del self._parts[part]
            self.store.discard(part)

    # Reading ------------------------------------------------------------------------------------------

    def load(self, queued: QueuedBatch) -> Batch:
        """Without the lock: the whole of a pinned batch, read from the store if it was spilled.

        Readers share the values computed on it.
        """
        batch = queued.batch
        if batch is not None:
            return batch
        rows = self.stored_rows(queued)
        with self._lock:
            batch = queued.batch
            if batch is None:
                batch = queued.batch = Batch(rows, queued.arrival, queued.watermark)
                self._count(queued)
                self.read_batches += 1
        if self.bytes > self.limit:
            self.spill()
        return batch

    def stored_rows(self, queued: QueuedBatch) -> pa.RecordBatch:
        """Without the lock: the rows of a pinned batch that is not in memory; a pin keeps its part."""
        assert queued.part is not None
        return self.store.read(queued.part, queued.index)


def roots_of(rows: pa.RecordBatch) -> Roots:
    """The allocations that a batch keeps alive.

    A slice keeps its whole buffers alive, and a buffer inside another (a column of an IPC message) keeps the outermost
    one alive.
    """
    found: set[tuple[int, int]] = set()
    for column in rows.columns:
        for buffer in column.buffers():
            if buffer is None:
                continue
            outer = buffer.parent
            while outer is not None:
                buffer, outer = outer, outer.parent
            found.add((buffer.address, buffer.size))
    return tuple(found)


def _coldness(queued: QueuedBatch) -> tuple[int, int]:
    return (-queued.cls, -queued.order)

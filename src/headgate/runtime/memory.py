"""The memory of what waits: exact bytes, a limit, and spilling of the coldest batches past it (003 §3.8).

What counts are the bytes of the Arrow allocations that waiting batches keep alive: a slice counts as the whole that it
keeps alive, and an allocation that several batches share counts once. Batches on their way through a unit are not
counted; there is at most one train of them per thread.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from math import inf
from threading import Lock

import pyarrow as pa

from headgate.operators.batch import Batch
from headgate.runtime.held import Held, roots_of
from headgate.runtime.store import Store

_LOG = logging.getLogger("headgate.runtime")

LOW = 0.9
"""Above the limit, batches are spilled until memory is down to this share of it, so that choosing is seldom."""

RETRY = 5.0
"""After spilling failed, so long (s) until the next try."""

PART = 32 << 20
"""The most bytes that go into one file."""


class Memory:
    """Counts what is held, and spills. Every method is called under the network's lock, which `lock` is.

    `relieve` and `rows` let go of it while they write and read files.
    """

    def __init__(self, store: Callable[[], Store], limit: int | None, lock: Lock) -> None:
        self.limit = inf if limit is None else limit
        """Memory limit in bytes; `relieve` is called above it."""
        self.bytes = 0
        self.peak = 0
        self.spilled_bytes = 0
        self.spilled_batches = 0
        self.read_batches = 0
        self._make_store = store
        self._store: Store | None = None
        self._lock = lock
        self._roots: dict[tuple[int, int], int] = {}
        self._resident: dict[int, Held] = {}
        self._leaving: set[int] = set()
        self._parts: dict[str, int] = {}
        self._orders = 0
        self._name = uuid.uuid4().hex[:12]
        self._files = 0
        self._again = 0.0
        self.trouble: str | None = None

    @property
    def store(self) -> Store:
        """Where spilled batches are; made when it is first needed."""
        if self._store is None:
            self._store = self._make_store()
        return self._store

    # Counting -----------------------------------------------------------------------------------------

    def hold(self, batch: Batch, readers: int, cls: int, tracked: bool) -> Held:
        """Begins to hold a batch. `tracked`: it may share allocations with another held batch."""
        order = self._orders = self._orders + 1
        held = Held(batch, readers, cls, order, tracked)
        if tracked:
            self._count(held)
            return held
        # As `_count` does; this is the hot path.
        held.bytes = held.size = size = batch.rows.get_total_buffer_size()
        size += self.bytes
        self.bytes = size
        if size > self.peak:
            self.peak = size
        self._resident[order] = held
        return held

    def adopt(self, held: Held) -> None:
        """Takes over a batch whose rows are in a part of the store."""
        assert held.part is not None
        self._orders += 1
        held.order = self._orders
        held.tracked = True
        self._parts[held.part] = self._parts.get(held.part, 0) + 1

    def release(self, held: Held) -> None:
        """One reader has read it to its end; the last one frees it."""
        readers = held.readers = held.readers - 1
        if readers:
            return
        if held.batch is not None:
            self._uncount(held)
        if held.part is not None:
            self._drop(held.part)

    def size(self, held: Held) -> float:
        """The memory that a batch takes: its part of each allocation that it shares with others."""
        if held.roots is None:
            return float(held.bytes)
        return held.bytes + sum(root[1] / self._roots[root] for root in held.roots)

    def grown(self, held: Held) -> None:
        """Counts what was computed on its rows and is kept for other readers."""
        if held.batch is None or len(held.batch.computed) == held.memo:
            return
        # A copy in one step: other readers add to it without the lock.
        computed = list(held.batch.computed.values())
        added = computed[held.memo :]
        size = sum([int(value.get_total_buffer_size()) for value in added if isinstance(value, pa.Array)])
        held.memo = len(computed)
        held.bytes += size
        self.bytes += size

    def _count(self, held: Held) -> None:
        assert held.batch is not None
        rows = held.batch.rows
        if held.tracked:
            held.roots = roots_of(rows)
            held.bytes = 0
            held.size = 0
            known = self._roots
            for root in held.roots:
                held.size += root[1]
                readers = known.get(root, 0)
                known[root] = readers + 1
                if not readers:
                    self.bytes += root[1]
        else:
            held.bytes = held.size = int(rows.get_total_buffer_size())
            self.bytes += held.bytes
        if self.bytes > self.peak:
            self.peak = self.bytes
        self._resident[held.order] = held

    def _uncount(self, held: Held) -> None:
        if held.roots is not None:
            known = self._roots
            for root in held.roots:
                readers = known[root] - 1
                if readers:
                    known[root] = readers
                else:
                    del known[root]
                    self.bytes -= root[1]
            held.roots = None
        self.bytes -= held.bytes
        held.bytes = held.memo = 0
        held.batch = None
        del self._resident[held.order]

    # Spilling -----------------------------------------------------------------------------------------

    def relieve(self) -> None:
        """If the limit is passed, spills the coldest batches until memory is below it again.

        Where nothing can be written, rows stay in memory past the limit: nothing is lost, and `trouble` says why.
        """
        if self.bytes <= self.limit or time.monotonic() < self._again:
            return
        try:
            while self.bytes > LOW * self.limit:
                if not self.spill(self._resident.values(), self.bytes - int(LOW * self.limit)):
                    return
            self.trouble = None
        except OSError as error:
            self.trouble = str(error)
            self._again = time.monotonic() + RETRY
            _LOG.error("%s; rows stay in memory past the limit until it works again", error)

    def spill(self, candidates: Iterable[Held], need: int) -> int:
        """Writes the coldest of the candidates and frees at least `need` bytes if it can; gives how many went.

        Coldest are those that wait for the sink, then those of the lowest class, and among these the newest: a queue
        is read from its oldest end, so they are needed last. A batch that was written before is not written again.
        """
        chosen: list[Held] = []
        for held in sorted(candidates, key=_coldest):
            if need <= 0:
                break
            if held.pins or held.order in self._leaving or held.batch is None:
                continue
            chosen.append(held)
            need -= held.size
        if not chosen:
            return 0
        self._leaving.update(held.order for held in chosen)
        try:
            for group in in_files([held for held in chosen if held.part is None]):
                self._write(group)
        finally:
            self._leaving.difference_update(held.order for held in chosen)
        gone = 0
        for held in chosen:
            if held.batch is not None and held.part is not None and not held.pins:
                self._uncount(held)
                gone += 1
                self.spilled_batches += 1
        return gone

    def written(self, group: list[Held], key: str) -> None:
        """The batches are in a part of the store now."""
        alive = 0
        for index, held in enumerate(group):
            held.part, held.index = key, index
            alive += held.readers > 0
        if alive:
            self._parts[key] = alive
        else:
            self.store.discard(key)

    def _write(self, group: list[Held]) -> None:
        # While another group was written, some may have been read to their end, or written by somebody else.
        group = [held for held in group if held.batch is not None and held.part is None]
        if not group:
            return
        key = self.new_key()
        batches = [held.batch.rows for held in group if held.batch is not None]
        store = self.store
        self._lock.release()
        try:
            store.write(key, batches)
        finally:
            self._lock.acquire()
        self.spilled_bytes += sum(held.size for held in group)
        # Some may have been read to their end meanwhile; the part counts only those that still have readers.
        self.written(group, key)

    def new_key(self) -> str:
        """A key that no part had before, in this process or another."""
        self._files += 1
        return f"{self._name}-{self._files}"

    def _drop(self, part: str) -> None:
        left = self._parts[part] - 1
        if left:
            self._parts[part] = left
        else:
            del self._parts[part]
            self.store.discard(part)

    # Reading ------------------------------------------------------------------------------------------

    def batch(self, held: Held) -> Batch:
        """The whole held batch, brought back from the store if it is there. Readers share what is computed on it."""
        if held.batch is not None:
            return held.batch
        assert held.part is not None
        part, index, store = held.part, held.index, self.store
        self._lock.release()
        try:
            rows = store.read(part, index)
        finally:
            self._lock.acquire()
        batch = held.batch
        if batch is None:
            batch = held.batch = Batch(rows, held.arrival, held.watermark)
            self._count(held)
            self.read_batches += 1
            # Whoever asks for the rows has pinned them, or takes them out: they do not go at once.
            self.relieve()
        return batch


def _coldest(held: Held) -> tuple[int, int]:
    return (-held.cls, -held.order)


def in_files(chosen: list[Held]) -> list[list[Held]]:
    """Batches by the file that they go into: of one schema, not too many bytes; dictionaries differ between batches."""
    by_schema: dict[pa.Schema, list[Held]] = {}
    groups: list[list[Held]] = []
    room: dict[pa.Schema, int] = {}
    for held in chosen:
        assert held.batch is not None
        schema = held.batch.rows.schema
        size = int(held.batch.rows.get_total_buffer_size())
        group = by_schema.get(schema)
        alone = any(pa.types.is_dictionary(field.type) for field in schema)
        if group is None or alone or room[schema] < size:
            group = by_schema[schema] = []
            groups.append(group)
            room[schema] = PART
        group.append(held)
        room[schema] -= size
    return groups

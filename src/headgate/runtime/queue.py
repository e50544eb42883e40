"""The queue of one edge and the batches that wait in it, cut into trains without copying."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from headgate.operators.batch import Arrival, Batch

Roots = tuple[tuple[int, int], ...]
"""Arrow allocations, as (address, bytes)."""

OUTBOX = 1 << 30
"""The class of a batch that waits only for the sink: colder than any class of queries."""


class QueuedBatch:
    """One copy of a batch, shared by all queues of a fork and by outboxes; freed when its last reader is done.

    `batch` is None while the rows are in the store, in part `part` at `index`. `cls` is the highest class (lowest
    number) among its readers and `order` a sequence number; together they predict how soon the batch is needed. A batch
    is not spilled while `pins` trains contain rows of it. `bytes` is the memory that only this batch takes, `size`
    everything that it keeps alive (`roots`: shared allocations), `computed` the number of values computed on its rows
    that `bytes` includes; `tracked`: it may share allocations with other batches.

    All fields belong to `Memory` and change under the network's lock. `batch` may be read without the lock by a thread
    that has pinned it.
    """

    __slots__ = (
        "arrival",
        "batch",
        "bytes",
        "cls",
        "computed",
        "count",
        "index",
        "order",
        "part",
        "pins",
        "readers",
        "roots",
        "size",
        "tracked",
        "watermark",
    )

    def __init__(self, batch: Batch, readers: int, cls: int, order: int, tracked: bool) -> None:
        self.batch: Batch | None = batch
        self.arrival: Arrival = batch.arrival
        self.watermark: int = batch.watermark
        self.count: int = batch.rows.num_rows
        self.readers = readers
        self.cls = cls
        self.order = order
        self.bytes = 0
        self.size = 0
        self.computed = 0
        self.pins = 0
        self.tracked = tracked
        self.roots: Roots | None = None
        self.part: str | None = None
        self.index = 0

    @classmethod
    def stored(cls, described: Mapping[str, Any]) -> QueuedBatch:
        """A batch from a manifest: its rows are in the store, and it has no reader yet."""
        queued = cls.__new__(cls)
        queued.batch = None
        queued.arrival = Arrival(*described["arrival"])
        queued.watermark = described["watermark"]
        queued.count = described["rows"]
        queued.readers = 0
        queued.cls = OUTBOX
        queued.order = queued.bytes = queued.size = queued.computed = queued.pins = 0
        queued.tracked = True
        queued.roots = None
        queued.part, queued.index = described["part"], described["index"]
        return queued


class Piece:
    """Consecutive rows of a queued batch."""

    __slots__ = ("queued", "start", "stop")

    def __init__(self, queued: QueuedBatch, start: int, stop: int) -> None:
        self.queued = queued
        self.start = start
        self.stop = stop

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def last(self) -> bool:
        """Whether the piece contains the last rows of its batch."""
        return self.stop == self.queued.count


class QueuedWatermark:
    """A watermark in a queue, and when the rows that it follows arrived."""

    __slots__ = ("since", "time")

    def __init__(self, time: int, since: float) -> None:
        self.time = time
        self.since = since


class EdgeQueue:
    """The rows and watermarks waiting on one edge. Not thread-safe: used under the network's lock.

    `waiting` is the length that the scheduler sees: rows, and one for each watermark, so that a queue that holds only a
    watermark is ready too. Nothing overtakes a watermark.
    """

    __slots__ = ("_items", "rows", "watermarks")

    def __init__(self) -> None:
        self._items: deque[Piece | QueuedWatermark] = deque()
        self.rows = 0
        self.watermarks = 0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Piece | QueuedWatermark]:
        return iter(self._items)

    @property
    def waiting(self) -> int:
        return self.rows + self.watermarks

    @property
    def oldest(self) -> float:
        """Arrival time of the first item; inf if the queue is empty."""
        if not self._items:
            return inf
        head = self._items[0]
        return head.queued.arrival.first if isinstance(head, Piece) else head.since

    def put(self, queued: QueuedBatch) -> None:
        """Adds all rows of a batch, of which this queue is one reader."""
        self._items.append(Piece(queued, 0, queued.count))
        self.rows += queued.count

    def put_piece(self, piece: Piece) -> None:
        """Adds a piece that was waiting before (when a network is restored)."""
        self._items.append(piece)
        self.rows += piece.rows

    def put_watermark(self, watermark: QueuedWatermark, merge: bool = False) -> bool:
        """Adds a watermark; False if the last item is the same watermark already. With `merge` it takes the place of a
        watermark that is the last item: nothing is between them."""
        if self._items:
            last = self._items[-1]
            if isinstance(last, QueuedWatermark):
                if last.time == watermark.time:
                    return False
                if merge:
                    self._items[-1] = watermark
                    return False
        self._items.append(watermark)
        self.watermarks += 1
        return True

    def take(self, rows: float = inf, until: float = inf) -> list[Piece | QueuedWatermark]:
        """Removes a train: the oldest items, up to a number of rows (at least one). Watermarks behind the last row
        come with it; a train that begins with watermarks has at least those. Its batches are pinned.

        Except for the first piece, rows that arrived after `until` stay.
        """
        items = self._items
        if len(items) == 1 and self.rows and self.rows <= rows:
            # The common case: the only item is a piece, and all of it may be taken.
            only = items.popleft()
            only.queued.pins += 1  # type: ignore[union-attr]
            self.rows = 0
            return [only]
        train: list[Piece | QueuedWatermark] = []
        left = max(rows, 1)
        while items:
            head = items[0]
            if isinstance(head, QueuedWatermark):
                train.append(items.popleft())
                self.watermarks -= 1
                continue
            if left < 1 or (train and head.queued.arrival.first > until):
                break
            size = head.stop - head.start
            head.queued.pins += 1
            if size <= left:
                train.append(items.popleft())
            else:
                size = int(left)
                middle = head.start + size
                train.append(Piece(head.queued, head.start, middle))
                head.start = middle
            left -= size
            self.rows -= size
        return train

    def drop_rows(self) -> list[QueuedBatch]:
        """Removes all rows and all but the last watermark; returns the batches of which it was a reader."""
        last = next((item for item in reversed(self._items) if isinstance(item, QueuedWatermark)), None)
        queued = self.clear()
        if last is not None:
            self.put_watermark(last)
        return queued

    def clear(self) -> list[QueuedBatch]:
        """Empties the queue and returns the batches of which it was a reader."""
        queued = [item.queued for item in self._items if isinstance(item, Piece)]
        self._items.clear()
        self.rows = self.watermarks = 0
        return queued

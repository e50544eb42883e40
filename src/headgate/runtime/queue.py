"""The queue of one edge: batches and watermarks in their order of arrival, cut into trains without copying."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf

from headgate.runtime.held import Held


class Piece:
    """Some rows, one after the other, of a held batch."""

    __slots__ = ("held", "start", "stop")

    def __init__(self, held: Held, start: int, stop: int) -> None:
        self.held = held
        self.start = start
        self.stop = stop

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def last(self) -> bool:
        """Whether the held batch is read to its end with this piece."""
        return self.stop == self.held.count


class Watermark:
    """A watermark that travels in a queue, and when the rows that it follows arrived."""

    __slots__ = ("since", "time")

    def __init__(self, time: int, since: float) -> None:
        self.time = time
        self.since = since


class EdgeQueue:
    """Rows and watermarks that wait on one edge. Not thread-safe: used under the network's lock.

    `waiting` is what the scheduler sees: rows, and one for each watermark, so that a queue that holds only a watermark
    is ready too. A watermark is never overtaken.
    """

    __slots__ = ("_items", "rows", "watermarks")

    def __init__(self) -> None:
        self._items: deque[Piece | Watermark] = deque()
        self.rows = 0
        self.watermarks = 0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Piece | Watermark]:
        return iter(self._items)

    @property
    def waiting(self) -> int:
        return self.rows + self.watermarks

    @property
    def oldest(self) -> float:
        """When the first thing that waits arrived; inf if nothing waits."""
        if not self._items:
            return inf
        head = self._items[0]
        return head.held.arrival.first if isinstance(head, Piece) else head.since

    def put(self, held: Held) -> None:
        """Adds all rows of a held batch, of which this queue is one reader."""
        self._items.append(Piece(held, 0, held.count))
        self.rows += held.count

    def put_piece(self, piece: Piece) -> None:
        """Adds a piece that waited before (when a network is restored)."""
        self._items.append(piece)
        self.rows += piece.rows

    def put_watermark(self, watermark: Watermark) -> bool:
        """Adds a watermark; False if it says nothing new: the last thing that waits is the same watermark."""
        if self._items:
            last = self._items[-1]
            if isinstance(last, Watermark) and last.time == watermark.time:
                return False
        self._items.append(watermark)
        self.watermarks += 1
        return True

    def take(self, rows: float = inf, until: float = inf) -> list[Piece | Watermark]:
        """A train: the oldest pieces and watermarks, up to a number of rows (at least one). Watermarks behind the last
        row come with it; a train that begins with watermarks has at least those. Its batches are pinned.

        `until`: what arrived later than this waits, but for the first.
        """
        items = self._items
        if len(items) == 1 and self.rows and self.rows <= rows:
            # Most of the time: the one thing that waits is a piece, and all of it may go.
            only = items.popleft()
            only.held.pins += 1  # type: ignore[union-attr]
            self.rows = 0
            return [only]
        train: list[Piece | Watermark] = []
        left = max(rows, 1)
        while items:
            head = items[0]
            if isinstance(head, Watermark):
                train.append(items.popleft())
                self.watermarks -= 1
                continue
            if left < 1 or (train and head.held.arrival.first > until):
                break
            size = head.stop - head.start
            head.held.pins += 1
            if size <= left:
                train.append(items.popleft())
            else:
                size = int(left)
                middle = head.start + size
                train.append(Piece(head.held, head.start, middle))
                head.start = middle
            left -= size
            self.rows -= size
        return train

    def clear(self) -> list[Held]:
        """Empties the queue and gives the batches of which it was a reader."""
        held = [item.held for item in self._items if isinstance(item, Piece)]
        self._items.clear()
        self.rows = self.watermarks = 0
        return held

"""Passes results and metrics to the clients that follow them; encodes them once for all clients.

Everything here runs on the event loop, except for the listeners that the engine calls. A client that reads too slowly
misses events and gets their number; it never blocks anything else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pyarrow as pa

from headgate.engine import Engine
from headgate.server.rows import columns, dumps, json_rows
from headgate.spark.results import Results

_WAITING = 64
"""Most events that wait for a client."""

_SILENCE = 15.0
"""Seconds without an event after which a comment is sent: idle connections may be closed."""


def event(kind: str, value: Any) -> bytes:
    """A server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), dumps(value))


class Follower:
    """A client, with its queue of events."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self._missed = 0

    def offer(self, data: bytes) -> None:
        """Queues an event, or counts it as missed."""
        try:
            if self._missed:
                self._queue.put_nowait(event("missed", {"events": self._missed}))
                self._missed = 0
            self._queue.put_nowait(data)
        except asyncio.QueueFull:
            self._missed += 1

    def end(self) -> None:
        """Ends the stream of events."""
        while self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def events(self) -> AsyncIterator[bytes]:
        """The events as they arrive, and comments while there are none."""
        while True:
            try:
                data = await asyncio.wait_for(self._queue.get(), _SILENCE)
            except TimeoutError:
                data = b": nothing new\n\n"
            if data is None:
                return
            yield data


class Followers:
    """The clients that follow one thing."""

    def __init__(self) -> None:
        self._all: set[Follower] = set()

    def __len__(self) -> int:
        return len(self._all)

    def add(self) -> Follower:
        follower = Follower()
        self._all.add(follower)
        return follower

    def remove(self, follower: Follower) -> None:
        self._all.discard(follower)

    def send(self, data: bytes) -> None:
        for follower in self._all:
            follower.offer(data)

    def end(self) -> None:
        for follower in self._all:
            follower.end()


class ResultFeeds:
    """The clients that follow results, by query. `most`: most rows of an epoch that are sent, the newest ones."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._engine = engine
        self._loop = loop
        self._most = most
        self._followers: dict[str, Followers] = {}
        self._ends: dict[str, Callable[[], None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._followers.values()))

    def add(self, query: str) -> Follower:
        """Adds a client that follows the results of a query; EngineError if there is no such query."""
        if query not in self._followers:
            self._ends[query] = self._engine.follow(query, lambda results: self._listen(query, results))
            self._followers[query] = Followers()
        return self._followers[query].add()

    def remove(self, query: str, follower: Follower) -> None:
        """Removes a client that has disconnected."""
        followers = self._followers.get(query)
        if followers is not None:
            followers.remove(follower)
            if not len(followers):
                del self._followers[query]
                self._ends.pop(query)()

    def end(self, query: str | None = None) -> None:
        """Ends the streams of all clients that follow a query, or with None of all clients."""
        for name in [query] if query is not None else list(self._followers):
            if name in self._followers:
                self._followers.pop(name).end()
                self._ends.pop(name)()

    def _listen(self, query: str, results: Results) -> None:
        """Called on the publisher's thread."""
        self._loop.call_soon_threadsafe(self._arrived, query, results, time.time())

    def _arrived(self, query: str, results: Results, moment: float) -> None:
        followers = self._followers.get(query)
        if followers is not None:
            followers.send(event("results", {"epoch": results.epoch, "time": moment, **self.values(results)}))

    def values(self, results: Results) -> dict[str, Any]:
        """The newest rows of an epoch. If the query replaces rows, each has its key, and whether it is deleted."""
        table = results.table
        first = max(0, table.num_rows - self._most)
        found = {"skipped": first, **rows_of(table.slice(first))}
        if results.identity is not None and results.deleted is not None:
            keys = zip(*(column.to_pylist() for column in results.identity.slice(first).columns), strict=True)
            found["keys"] = [repr(key) for key in keys] or [""] * (table.num_rows - first)
            found["deleted"] = results.deleted.slice(first).to_pylist()
        return found


def rows_of(table: pa.Table) -> dict[str, Any]:
    """Columns and rows for JSON."""
    return {"columns": columns(table.schema), "rows": json_rows(table)}

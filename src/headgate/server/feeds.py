"""Passes results and metrics to the clients that follow them: encoded once, however many they are.

Everything here runs on the event loop, except for the listeners that the engine calls. A client that reads too slowly
misses events and is told how many; it never makes anything else wait.
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
"""Events that may wait for a client."""

_SILENCE = 15.0
"""Seconds without an event after which a comment is sent: connections that are silent may be cut."""


def event(kind: str, value: Any) -> bytes:
    """A server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), dumps(value))


class Follower:
    """A client: the events that wait for it."""

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
        """No more events follow."""
        while self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    async def events(self) -> AsyncIterator[bytes]:
        """The events as they come, and comments while there are none."""
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
    """The clients that follow results, by query. `most`: rows of an epoch that are sent at most, the newest."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._engine = engine
        self._loop = loop
        self._most = most
        self._followers: dict[str, Followers] = {}
        self._ends: dict[str, Callable[[], None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._followers.values()))

    def add(self, query: str) -> Follower:
        """A client follows the results of a query from now on; EngineError if there is no such query."""
        if query not in self._followers:
            self._ends[query] = self._engine.follow(query, lambda results: self._listen(query, results))
            self._followers[query] = Followers()
        return self._followers[query].add()

    def remove(self, query: str, follower: Follower) -> None:
        """A client is gone."""
        followers = self._followers.get(query)
        if followers is not None:
            followers.remove(follower)
            if not len(followers):
                del self._followers[query]
                self._ends.pop(query)()

    def end(self, query: str | None = None) -> None:
        """A query is gone, or with None everything: those that follow it get no more."""
        for name in [query] if query is not None else list(self._followers):
            if name in self._followers:
                self._followers.pop(name).end()
                self._ends.pop(name)()

    def _listen(self, query: str, results: Results) -> None:
        """On the publisher's thread."""
        self._loop.call_soon_threadsafe(self._arrived, query, results, time.time())

    def _arrived(self, query: str, results: Results, moment: float) -> None:
        followers = self._followers.get(query)
        if followers is not None:
            followers.send(event("results", {"epoch": results.epoch, "time": moment, **self.values(results)}))

    def values(self, results: Results) -> dict[str, Any]:
        """The newest rows of an epoch. Of a query that replaces rows each has its key, and whether it is deleted."""
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

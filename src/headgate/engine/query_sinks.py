"""The sinks of all queries, and the newest rows of each query, which users read and follow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from headgate.connectors.memory import MemorySink, MemoryWriter
from headgate.connectors.registry import open_sink
from headgate.graph.queries import Query, Sink
from headgate.spark.lazy_session import LazySession
from headgate.spark.publisher import Publisher
from headgate.spark.results import Results, Writer


@dataclass(frozen=True)
class SinksMark:
    """Which sinks are open at a moment, for `QuerySinks.back_to`."""

    opened: dict[str, Query]
    newest: dict[str, tuple[Query, MemoryWriter]]


class QuerySinks:
    """Opens sinks, and keeps the newest rows of each query: `kept` rows, unless the query sets another number. These
    rows survive a stop and a restart.

    Sinks are opened and forgotten under the engine's lock; any thread may call the other methods.
    """

    def __init__(self, session: LazySession, kept: int) -> None:
        self._session = session
        self._kept = kept
        self._lock = threading.Lock()
        self._opened: dict[str, Query] = {}
        self._newest: dict[str, tuple[Query, MemoryWriter]] = {}
        self._listeners: dict[str, list[Callable[[Results], None]]] = {}

    def begin(self) -> None:
        """Called when a run begins: no sink is open."""
        self._opened.clear()

    def open_new(self, queries: Iterable[Query], publisher: Publisher) -> None:
        """Opens the sinks of queries that are new."""
        for query in queries:
            known = self._opened.get(query.name)
            if known is None or not known.same_results(query):
                memory = any(sink.format == MemorySink.name for sink in query.sinks)
                publisher.open(query, () if memory else (Sink(MemorySink.name),))
            self._opened[query.name] = query

    def open(self, query: Query, sink: Sink, run: str) -> Writer:
        """Opens one sink of a query."""
        if sink.format != MemorySink.name:
            return open_sink(self._session.spark, query, sink, run)
        known = self._newest.get(query.name)
        if known is None or not known[0].same_results(query):
            writer = MemorySink().open(self._session.spark, query, {"rows": str(self._kept), **sink.options}, run)
            known = self._newest[query.name] = (query, writer)
            writer.notify = lambda results: self.notify(query.name, results)
        known[1].follow(run)
        return known[1]

    def forget(self, query: str) -> None:
        """Called when a query is dropped: a new query of this name gets its own sinks."""
        self._opened.pop(query, None)
        self._newest.pop(query, None)

    def mark(self) -> SinksMark:
        """What is open now."""
        return SinksMark(dict(self._opened), dict(self._newest))

    def back_to(self, mark: SinksMark) -> None:
        """Undoes what was opened and forgotten since `mark`."""
        self._opened, self._newest = mark.opened, mark.newest

    def newest(self, query: Query) -> pa.Table:
        """The rows of a query that are kept."""
        known = self._newest.get(query.name)
        return known[1].table() if known is not None else query.schema.arrow().empty_table()

    def follow(self, query: str, listener: Callable[[Results], None]) -> Callable[[], None]:
        """See `Engine.follow`."""
        with self._lock:
            listeners = self._listeners.setdefault(query, [])
            listeners.append(listener)

        def end() -> None:
            with self._lock, suppress(ValueError):
                listeners.remove(listener)

        return end

    def notify(self, query: str, results: Results) -> None:
        """On the publisher's thread: calls the listeners of a query."""
        for listener in tuple(self._listeners.get(query, ())):
            listener(results)

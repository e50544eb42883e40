"""Publishes the results of committed epochs to the sinks, in order, on a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping

import pyarrow as pa

from headgate.graph.queries import Query, Sink
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.results import Results, SinkError, Writer
from headgate.spark.task import DEAD


class Publisher:
    """Publishes epochs in order; when all sinks have an epoch, the checkpoint records it.

    `open_sink` opens a sink of a query. `dead` receives malformed rows, `done` every epoch that is published. Without
    `threaded`, `put` publishes before it returns.

    A sink that fails stops the publishing, not the epochs: the results stay in the outbox, `failure` says why, and a
    restart publishes them if the checkpoint is `kept`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        open_sink: Callable[[Query, Sink], Writer],
        dead: Callable[[int, pa.Table], None],
        done: Callable[[int], None],
        threaded: bool = True,
        kept: bool = True,
    ) -> None:
        self._checkpoint = checkpoint
        self._open_sink = open_sink
        self._dead = dead
        self._done = done
        self._then = "; its results are in the checkpoint and are published at the next start" if kept else ""
        self._writers: dict[str, tuple[Query, list[Writer]]] = {}
        self._queue: queue.SimpleQueue[tuple[int, tuple[tuple[str, pa.Table], ...]] | None] = queue.SimpleQueue()
        self.failure: SinkError | None = None
        self._thread: threading.Thread | None = None
        if threaded:
            self._thread = threading.Thread(target=self._work, name="headgate-publisher", daemon=True)
            self._thread.start()

    def open(self, query: Query, extra: tuple[Sink, ...] = ()) -> None:
        """Opens the sinks of a query and `extra` ones; SinkError if one cannot be opened."""
        self._writers[query.name] = (query, [self._open_sink(query, sink) for sink in (*query.sinks, *extra)])

    def put(self, epoch: int, results: tuple[tuple[str, pa.Table], ...]) -> None:
        """Queues an epoch for publication; without a thread, publishes it."""
        if self._thread is None:
            self._all(epoch, results)
        else:
            self._queue.put((epoch, results))

    def republish(self, names: Mapping[str, Query]) -> int:
        """Publishes the epochs that were committed but not recorded as published; returns their number."""
        published = self._checkpoint.published()
        left = [commit for commit in self._checkpoint.commits() if commit.epoch > published]
        for commit in left:
            tables = tuple((name, self._checkpoint.read(place)) for name, place in commit.results)
            self.put(commit.epoch, tuple((name, table) for name, table in tables if name in names or name == DEAD))
        return len(left)

    def close(self) -> None:
        """Publishes the queued epochs, then closes the sinks."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        for _, writers in self._writers.values():
            for writer in writers:
                writer.close()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            if self.failure is not None:
                continue
            epoch, results = item
            try:
                self._all(epoch, results)
            except SinkError as error:
                self.failure = SinkError(f"{error}{self._then}")
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                self.failure = SinkError(f"epoch {epoch} could not be published: {reason}{self._then}")

    def _all(self, epoch: int, results: tuple[tuple[str, pa.Table], ...]) -> None:
        for name, table in results:
            self._publish(epoch, name, table)
        self._checkpoint.publish(epoch)
        self._done(epoch)

    def _publish(self, epoch: int, name: str, table: pa.Table) -> None:
        if name == DEAD:
            self._dead(epoch, table)
            return
        known = self._writers.get(name)
        if known is None:
            return
        query, writers = known
        results = Results.of(name, epoch, table, query.visible, query.mode == "update")
        for writer in writers:
            writer.publish(results)

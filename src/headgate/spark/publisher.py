"""Publishes the results of committed epochs to the sinks, in order, on a separate thread."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headgate.graph.queries import Query, Sink
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.commit import Commit
from headgate.spark.messages import DEAD, Place
from headgate.spark.outbox_rows import OutboxRows
from headgate.spark.results import DriverWriter, ExecutorWriter, HostWriter, Results, SinkError, Writer
from headgate.spark.written_files import WrittenFiles

_CLEAN_EVERY = 100
"""Epochs between two removals of hidden files that were never committed."""

MOST_WAITING = 50
"""Number of epochs that wait for the sinks before the next one waits, too. At five to ten epochs a second that is five
to ten seconds: a pause of a sink (a broker's election, a commit of a table) delays no epoch. A sink that is slower than
its queries slows the sources down; otherwise it would fill the memory of the driver with rows and the checkpoint with
files. The number also bounds what a restart publishes again."""


_left_behind: dict[str, threading.Thread] = {}
"""By checkpoint, the thread of a publisher of this process whose sinks had not taken everything when it was closed."""


class _Abandoned(Exception):
    """The publisher was closed meanwhile; the rest of the epoch is left to the next start."""


@dataclass(frozen=True)
class _Committed:
    """An epoch to publish: its commit and the rows in the answer. `again`: it may have been published already."""

    commit: Commit
    inline: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    again: bool = False


class Letters(Protocol):
    """A second destination of malformed rows, beside the folder of dead letters."""

    @property
    def wanted(self) -> bool: ...

    def send(self, letters: Sequence[Mapping[str, str]]) -> None:
        """Rows with `stream`, `reason` and `row`; SinkError if they cannot be sent."""
        ...


class Publisher:
    """Publishes epochs in order; when all sinks have an epoch, the checkpoint records it.

    For each query of an epoch: files that hosts wrote are moved into place, Spark writes what its executors read from
    the outbox, and the driver's sinks get their rows. The driver reads only the rows of its own sinks, and those of
    folders that a host could not write.

    `open_sink` opens a sink of a query. `dead` writes malformed rows, and `letters` sends them elsewhere too. `done`
    is called with every epoch that is published, `failed` when a sink fails. Without `threaded`, `put` publishes before
    it returns; with a thread, it waits while `most_waiting` epochs are waiting.

    A publisher that is abandoned begins nothing more, and a later one of the same checkpoint in this process waits
    until its thread has ended: otherwise both could write the same epoch.

    A sink that fails stops the publishing, not the epochs: all sinks revoke what they have begun, results stay where
    the commits name them, `failure` is the first error, and a restart publishes them if the checkpoint is `kept`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        open_sink: Callable[[Query, Sink], Writer],
        dead: HostWriter,
        done: Callable[[int], None],
        failed: Callable[[], None] = lambda: None,
        threaded: bool = True,
        kept: bool = True,
        files: WrittenFiles | None = None,
        letters: Letters | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._checkpoint = checkpoint
        self._open_sink = open_sink
        self._dead = dead
        self._done = done
        self._failed = failed
        self._then = "; its results are in the checkpoint and are published at the next start" if kept else ""
        self._files = files or WrittenFiles()
        self._letters = letters
        self._writers: dict[str, tuple[Query, list[Writer]]] = {}
        self._most_waiting = most_waiting
        # Under the condition: the epochs to publish, whether `put` waits, whether no others follow, and whether the
        # thread is left behind.
        self._changed = threading.Condition()
        self._queue: deque[_Committed] = deque()
        self._hurried = self._closing = self._abandoned = False
        self._published = checkpoint.published()
        self._earlier = _left_behind.get(checkpoint.absolute_uri)
        self._until_clean = 1
        self.failure: SinkError | None = None
        self._thread: threading.Thread | None = None
        if threaded:
            self._thread = threading.Thread(target=self._work, name="headgate-publisher", daemon=True)
            self._thread.start()

    def open(self, query: Query, extra: tuple[Sink, ...] = ()) -> None:
        """Opens the sinks of a query and `extra` ones; SinkError if one cannot be opened."""
        self._writers[query.name] = (query, [self._open_sink(query, sink) for sink in (*query.sinks, *extra)])

    def put(self, commit: Commit, inline: Mapping[str, Sequence[bytes]]) -> None:
        """Queues an epoch for publication; without a thread, publishes it. `inline` is that of its answer."""
        with self._changed:
            # After a failure nothing is published, and the engine is about to stop.
            self._changed.wait_for(
                lambda: len(self._queue) < self._most_waiting or self._hurried or self.failure is not None
            )
        self._put(_Committed(commit, inline))

    def republish(self) -> int:
        """Publishes the epochs that were committed but not recorded as published; returns their number."""
        left = [commit for commit in self._checkpoint.commits() if commit.epoch > self._published]
        for commit in left:
            self._put(_Committed(commit, again=True))
        return len(left)

    def hurry(self) -> None:
        """The engine is stopping: `put` no longer waits. The running epoch may still be put, and is published."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()

    def close(self, limit: float | None = None) -> None:
        """Publishes the queued epochs, then closes the sinks. No epoch is put afterwards.

        After `limit` seconds, sinks that have not taken everything are abandoned; the next start publishes the rest.
        """
        self.hurry()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is None:
            self._close_sinks()
            return
        self._thread.join(limit)
        with self._changed:
            self._abandoned = self._thread.is_alive()
            left = len(self._queue) + 1
        if self._abandoned:
            _left_behind[self._checkpoint.absolute_uri] = self._thread
            self._fail(SinkError(f"the sinks did not take the results of the last {left} epochs within {limit:g} s"))
            for _, writers in self._writers.values():
                for writer in writers:
                    writer.abandon()

    def _put(self, item: _Committed) -> None:
        if self._thread is None:
            self._await_earlier()
            self._all(item)
        else:
            with self._changed:
                self._queue.append(item)
                self._changed.notify_all()

    def _await_earlier(self) -> None:
        if self._earlier is not None:
            self._earlier.join()
            self._earlier = None
            # What it has published since it was left behind.
            self._published = max(self._published, self._checkpoint.published())

    def _work(self) -> None:
        self._await_earlier()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closing)
                if not self._queue:
                    break
                item = self._queue.popleft()
                self._changed.notify_all()
            if self.failure is not None:
                continue
            try:
                self._all(item)
            except _Abandoned:
                break
            except SinkError as error:
                self._give_up(error)
            except BaseException as error:
                # A user's function may raise SystemExit, which would end the thread in silence.
                reason = f"{type(error).__name__}: {error}"
                self._give_up(SinkError(f"epoch {item.commit.epoch} could not be published: {reason}"))
        try:
            if not self._abandoned:
                self._close_sinks()
        except Exception as error:
            self._fail(SinkError(f"the sinks could not be closed: {type(error).__name__}: {error}"))

    def _close_sinks(self) -> None:
        self._clean()
        self._dead.close()
        for _, writers in self._writers.values():
            for writer in writers:
                writer.close()

    def _give_up(self, error: SinkError) -> None:
        """An epoch has failed in the middle. The error comes first: revoking may take seconds."""
        self._fail(error)
        for _, writers in tuple(self._writers.values()):
            for writer in writers:
                writer.revoke()

    def _fail(self, error: SinkError) -> None:
        with self._changed:
            if self.failure is None:
                self.failure = SinkError(f"{error}{self._then}")
            self._changed.notify_all()
        self._failed()

    def _all(self, item: _Committed) -> None:
        commit = item.commit
        names = dict.fromkeys((*(file.query for file in commit.written), *(name for name, _ in commit.outbox)))
        in_spark: dict[object, list[tuple[ExecutorWriter, OutboxRows]]] = {}
        for name in names:
            self._go_on()
            for writer, rows in self._publish(item, name):
                in_spark.setdefault(writer if writer.together is None else writer.together, []).append((writer, rows))
        for pairs in in_spark.values():
            self._go_on()
            pairs[0][0].publish_together(pairs)
        for name in names:
            for each in self._writers[name][1] if name in self._writers else ():
                each.flush()
        self._go_on()
        self._checkpoint.publish(commit.epoch)
        self._published = commit.epoch
        self._done(commit.epoch)
        self._until_clean -= 1
        if self._until_clean == 0:
            self._until_clean = _CLEAN_EVERY
            self._clean()

    def _go_on(self) -> None:
        if self._abandoned:
            raise _Abandoned

    def _publish(self, item: _Committed, name: str) -> list[tuple[ExecutorWriter, OutboxRows]]:
        """Publishes the results of one query; returns those that Spark writes."""
        commit = item.commit
        for file in commit.written:
            if file.query == name:
                self._files.publish(file, item.again)
        unwritten = _places(commit.unwritten, name)
        if name == DEAD:
            if unwritten:
                self._dead.publish(Results(DEAD, commit.epoch, self._read(unwritten)))
            self._send_letters(commit, unwritten)
            return []
        if name not in self._writers:
            return []
        query, writers = self._writers[name]
        results = _places(commit.results, name)
        for writer in writers:
            if isinstance(writer, HostWriter) and unwritten:
                writer.publish(self._results(query, commit.epoch, self._read(unwritten)))
        in_driver = [writer for writer in writers if isinstance(writer, DriverWriter)]
        few = _places(commit.newest, name) or results
        if in_driver and few:
            found = self._results(query, commit.epoch, self._read(few, item.inline.get(name, ())))
            for writer in in_driver:
                writer.publish(found)
        rows = OutboxRows(query, commit.epoch, self._checkpoint.absolute_uri, results)
        return [(writer, rows) for writer in writers if isinstance(writer, ExecutorWriter) and results]

    def _send_letters(self, commit: Commit, unwritten: Sequence[Place]) -> None:
        """Copies malformed rows to where their streams want them, beside the folder."""
        if self._letters is None or not self._letters.wanted:
            return
        lines = [line for file in commit.written if file.query == DEAD for line in self._files.lines(file)]
        letters = [json.loads(line) for line in lines]
        self._letters.send([*letters, *(self._read(unwritten).to_pylist() if unwritten else ())])

    def _read(self, places: Sequence[Place], inline: Sequence[bytes] = ()) -> pa.Table:
        """Rows of the outbox; `inline` are those of all places, if the driver has them already."""
        if len(inline) == len(places):
            return pa.concat_tables([pa.ipc.open_stream(pa.py_buffer(data)).read_all() for data in inline])
        return pa.concat_tables([self._checkpoint.read(place) for place in places])

    @staticmethod
    def _results(query: Query, epoch: int, table: pa.Table) -> Results:
        return Results.of(query.name, epoch, table, query.visible, query.mode == "update")

    def _clean(self) -> None:
        """Every committed file up to the last published epoch is in place: what is still hidden was never committed."""
        for writer in (self._dead, *(writer for _, writers in self._writers.values() for writer in writers)):
            if isinstance(writer, HostWriter):
                writer.clean(self._published)


def _places(of: Sequence[tuple[str, Place]], query: str) -> tuple[Place, ...]:
    return tuple(place for name, place in of if name == query)

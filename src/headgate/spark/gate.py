"""A gate before a lane: an idle lane does not list its folders again and again.

Spark looks for new rows every few milliseconds, and each look lists all folders: a third of a core for an engine that
has nothing to do. A gate waits for events of the folders and watches their modification times instead, which costs a
hundredth, and keeps the streaming query waiting until one changes.

The query waits at the lock that Spark takes before it looks for new rows (`StreamExecution.awaitProgressLock`). It is
no public interface: where it is missing (Spark Connect), there is no gate, and the lane looks as often as Spark does.
A Python data source whose `latestOffset` waits does the same with public means; its four Python processes take
several seconds of processor time at the start.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from headgate.spark.folder_events import FolderEvents

QUIET = 0.25
"""Seconds without new rows after which a lane is idle. Far longer than a listing takes: when the gate closes, Spark has
listed all files that were there at the last change."""
BUSY_STEP = 0.1
"""Seconds between two looks while rows arrive."""
IDLE_STEP = 0.03
"""Seconds between two looks at the folders while the gate is closed, for changes of which no event comes."""
EVENTS_STEP = 0.1
"""The same where events come: only other machines' changes of a network file system are without."""
FIRST, LONGEST = 2.0, 10.0
"""Seconds after which Spark may look once although no folder has changed, for file systems whose times are late:
doubled with each look in vain. Several lanes that look every two seconds take 0.05 of a core."""
SHORTEST_POLL, LONGEST_POLL = 0.005, 0.2
"""Seconds between two looks of Spark at sources that cannot be watched: doubled with each look in vain."""
HANDOVER = 0.01
"""Seconds that the gate leaves the lock to the query that waits for it."""
SHARE = 0.01
"""The share of a core that watching may take: large trees of folders are looked at less often."""
SLOWEST = 0.15
"""Seconds between two looks beyond which folders are too slow to be watched."""
MOST = 1000
"""Number of folders beyond which a tree is too large to be watched."""


class Gate:
    """Keeps `query` from looking for new rows while it is idle. `folders`: the local folders, or patterns of folders,
    from which all its rows come; None if some rows come from elsewhere.

    Runs a thread of its own. `close` must be called before the query is stopped: a query that waits cannot stop.
    """

    def __init__(self, query: Any, folders: Sequence[str] | None) -> None:
        self._query = query
        self._events = FolderEvents()
        self._folders = None if folders is None else _Folders(folders, self._events)
        self._lock, self._milliseconds = _lock_of(query)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if self._lock is not None:
            self._thread = threading.Thread(target=self._run, name="headgate-gate", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Opens the gate for good and ends its thread."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._events.wake()
        if self._thread is not None:
            self._thread.join()
        self._events.close()

    def _run(self) -> None:
        since = time.monotonic()
        while not self._closed.wait(BUSY_STEP) and self._query.isActive:
            if self._changed() or self._delivering():
                since = time.monotonic()
            elif time.monotonic() - since >= QUIET:
                self._wait()
                since = time.monotonic()

    def _wait(self) -> None:
        """Keeps the query waiting until there may be new rows; lets it look now and then."""
        if self._folders is not None and self._watching and self._folders.find():
            return
        pause = FIRST if self._watching else SHORTEST_POLL
        while not self._closed.is_set():
            # The thread that takes the lock must release it: PySpark gives each thread of ours one of the JVM's.
            # Waiting for it takes its turn before Spark's next look; asking now and then would rarely find it free.
            if not self._lock.tryLock(500, self._milliseconds):
                continue
            try:
                found = self._delivering() or self._changed() or self._pause(pause)
            finally:
                self._lock.unlock()
            # Time for the waiting query to take the lock; it has it until it has looked.
            if found or self._closed.wait(HANDOVER) or self._delivering() or not self._query.isActive:
                return
            pause = min(2 * pause, LONGEST if self._watching else LONGEST_POLL)

    def _pause(self, seconds: float) -> bool:
        """Waits; True as soon as a folder has changed."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            step = self._folders.step if self._folders is not None and self._watching else left
            if self._changed(min(left, step)):
                return True
            if self._closed.is_set():
                return False
        return False

    @property
    def _watching(self) -> bool:
        return self._folders is not None and self._folders.step <= SLOWEST

    def _changed(self, wait: float = 0.0) -> bool:
        """Whether a watched folder has changed since the last call; waits so long (s) for a change."""
        event = self._events.wait(wait)
        return self._folders is not None and self._watching and (self._folders.changed() or event)

    def _delivering(self) -> bool:
        """Whether Spark's last look found rows."""
        return bool(self._query._jsq.status().isDataAvailable())


class _Folders:
    """Tells whether something was added to, or removed from, folders and the folders below them."""

    def __init__(self, folders: Sequence[str], events: FolderEvents) -> None:
        self._roots = [_fixed(folder) for folder in folders]
        self._events = events
        self._times: dict[str, int] = {}
        self._least = EVENTS_STEP if events.available else IDLE_STEP
        self.step = self._least
        """Seconds between two looks: more for many folders, infinite for too many."""
        self.find()

    def find(self) -> bool:
        """Finds the folders below; True if there are others than before."""
        before = self._times.keys()
        times: dict[str, int] = {}
        todo = list(self._roots)
        if not all(map(os.path.isdir, todo)):
            # A folder that is not here may be on the file system of the cluster.
            return self._give_up()
        while todo:
            path = todo.pop()
            if path in times:
                continue
            if len(times) == MOST:
                return self._give_up()
            # The time first, then what is below: what is added meanwhile counts as a change at the next look.
            times[path] = _modified(path)
            try:
                with os.scandir(path) as entries:
                    todo += [entry.path for entry in entries if entry.is_dir()]
            except OSError:
                continue
        self._events.watch(times)
        self._times = times
        return times.keys() != before

    def _give_up(self) -> bool:
        self._times, self.step = {}, math.inf
        return False

    def changed(self) -> bool:
        """Whether a known folder has changed since the last call."""
        began = time.thread_time()
        now = {path: _modified(path) for path in self._times}
        changed = now != self._times
        self._times = now
        # Slower after a slow look; a look that was slow by chance is forgotten again.
        self.step = max(self._least, 0.9 * self.step, (time.thread_time() - began) / SHARE)
        return changed


def _fixed(folder: str) -> str:
    """The part of a pattern of folders that is no pattern: others of the pattern may appear anywhere below.

    >>> _fixed("/data/in"), _fixed("/data/{a,b}/in"), _fixed("/data/day*")
    ('/data/in', '/data', '/data')
    """
    while any(sign in folder for sign in "*?[{"):
        folder = os.path.dirname(folder)
    return folder


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _lock_of(query: Any) -> tuple[Any, Any]:
    """The lock that Spark takes before it looks for new rows, and Java's word for milliseconds; None if it cannot be
    had."""
    try:
        from py4j.clientserver import ClientServer
        from pyspark import SparkContext

        # Without a JVM thread for each of ours, the lock could be released by a thread that does not have it.
        if not isinstance(SparkContext._gateway, ClientServer):
            return None, None
        lock = query._jsq.streamingQuery().awaitProgressLock()
        lock.isHeldByCurrentThread()
        return lock, SparkContext._gateway.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
    except Exception:
        return None, None

"""The lives of queries: which run now, when that changes next, and what a restart takes over from the checkpoint."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from headgate.graph.queries import Query, QueryClass

_LOG = logging.getLogger("headgate.control")

LONGEST_WAIT = 3600.0
"""Seconds after which the time is looked at again: the clock may have been set."""


def active(queries: Mapping[str, Query], now: float) -> dict[str, Query]:
    """The queries that have operators in the network at a time (s since 1970): those that run and those paused."""
    return {name: query for name, query in queries.items() if query.phase(now) in ("running", "paused")}


def next_change(queries: Iterable[Query], now: float) -> float | None:
    """When the next query begins or ends (s since 1970); None if no time is set."""
    moments = [at / 1e6 for query in queries if not query.stopped for at in (query.start, query.stop) if at is not None]
    return min((at for at in moments if at > now), default=None)


def changes(declared: Mapping[str, Query], queries: Mapping[str, Query], now: float) -> tuple[tuple[Query, Query], ...]:
    """The queries that a restart cannot learn from a script alone: each as it was declared and as it is, if it has
    changed since or has no operators now."""
    running = active(queries, now)
    pairs = ((declared.get(name, query), query) for name, query in queries.items())
    return tuple((before, after) for before, after in pairs if before != after or after.name not in running)


def continued(
    given: Mapping[str, Query],
    known: Sequence[tuple[Query, Query]],
    ended: Iterable[str],
    classes: Mapping[str, QueryClass],
) -> dict[str, Query]:
    """The queries of a script that go on as they were when the checkpoint was written: paused, stopped, in another
    class, with another spec. A query that the script declares in another way than before is as the script says."""
    found: dict[str, Query] = {}
    for declared, last in known:
        query = given.get(declared.name)
        if query is not None and _declaration(query) == _declaration(declared) and last != declared:
            cls = classes.get(last.cls.name, query.cls)
            found[query.name] = replace(query, cls=cls, spec=last.spec, pause=last.pause, stopped=last.stopped)
    for name in ended:
        query = found.get(name) or given.get(name)
        if query is not None and query.once:
            found[name] = replace(query, stopped=True)
    return found


def _declaration(query: Query) -> tuple[object, ...]:
    """What a script says of a query."""
    times = (query.start, query.stop, query.once)
    return (query.sql, query.cls, query.spec, query.sinks, times, query.pause, query.stopped)


class Timetable:
    """A thread that calls `act` when `due()` has come (s since 1970; None: never) and after each `wake`.

    `act` is called without a lock; an error in it is logged. Any thread may call `wake` and `close`.
    """

    def __init__(
        self, due: Callable[[], float | None], act: Callable[[], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._due = due
        self._act = act
        self._clock = clock
        self._condition = threading.Condition()
        self._woken = self._closed = False
        threading.Thread(target=self._work, name="headgate-timetable", daemon=True).start()

    def wake(self) -> None:
        """The times may have changed, or there is something to do at once."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def close(self) -> None:
        """Ends the thread; it does not wait for a running `act`."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _work(self) -> None:
        while True:
            due = self._due()
            with self._condition:
                wait = LONGEST_WAIT if due is None else min(due - self._clock(), LONGEST_WAIT)
                if not self._woken and not self._closed and wait > 0:
                    self._condition.wait(wait)
                if self._closed:
                    return
                ready = self._woken or (due is not None and self._clock() >= due)
                self._woken = False
            if ready:
                try:
                    self._act()
                except Exception:
                    _LOG.exception("queries could not be started or stopped on time")

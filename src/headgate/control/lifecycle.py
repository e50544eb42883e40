"""The life cycle of queries: which run now, when that changes, and what a restart takes over from the checkpoint."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headgate.control.query_control import EngineError
from headgate.graph.queries import Phase, Query, QueryClass
from headgate.graph.secrets import masked
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.commit import Commit
from headgate.spark.plan import Plan

_LOG = logging.getLogger("headgate.control")

LONGEST_WAIT = 3600.0
"""Seconds after which the clock is read again: it may have been adjusted."""


def active(queries: Mapping[str, Query], now: float) -> dict[str, Query]:
    """The queries that have operators in the network at a time (s since 1970): those that run and those paused."""
    return {name: query for name, query in queries.items() if query.phase(now) in ("running", "paused")}


def next_change(queries: Iterable[Query], now: float) -> float | None:
    """When the next query begins or ends (s since 1970); None if no time is set."""
    moments = [at / 1e6 for query in queries if not query.stopped for at in (query.start, query.stop) if at is not None]
    return min((at for at in moments if at > now), default=None)


def changes(declared: Mapping[str, Query], queries: Mapping[str, Query], now: float) -> tuple[tuple[Query, Query], ...]:
    """The queries that a restart cannot restore from the script alone, because they have changed or have no operators
    now: each as it was declared and as it is."""
    running = active(queries, now)
    pairs = ((declared.get(name, query), query) for name, query in queries.items())
    return tuple((before, after) for before, after in pairs if before != after or after.name not in running)


def continued(
    given: Mapping[str, Query],
    known: Sequence[tuple[Query, Query]],
    ended: Iterable[str],
    classes: Mapping[str, QueryClass],
) -> dict[str, Query]:
    """The queries of a script that continue as they were when the checkpoint was written: paused, stopped, in another
    class, with another spec. If the script declares a query differently than before, the script takes precedence."""
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
    """The parts of a query that a script declares."""
    times = (query.start, query.stop, query.once)
    # Passwords are masked in the checkpoint.
    sinks = tuple((sink.format, sorted(masked(sink.options).items())) for sink in query.sinks)
    return (query.sql, query.cls, query.spec, sinks, times, query.pause, query.stopped)


def phases(queries: Mapping[str, Query], running: bool) -> dict[str, Phase]:
    """The phase of each query; while the engine does not run, running queries count as stopped."""
    now = time.time()
    found = {name: query.phase(now) for name, query in queries.items()}
    return {name: "stopped" if phase == "running" and not running else phase for name, phase in found.items()}


def has_begun(folder: str, name: str, sql: str) -> bool:
    """Whether a checkpoint contains a query with this name and text."""
    checkpoint = Checkpoint(folder)
    commit = checkpoint.newest()
    return commit is not None and Plan.described(checkpoint, commit).get(name, {}).get("sql") == sql


def taken_over(
    checkpoint: Checkpoint, commit: Commit, queries: Mapping[str, Query], classes: Mapping[str, QueryClass]
) -> Iterable[Query]:
    """The queries that continue as they were at a commit (see `continued`)."""
    known = Plan.known_queries(checkpoint, commit.plan) if commit.plan else ()
    return continued(queries, known, commit.ended, classes).values()


@dataclass(frozen=True)
class QueriesAtTime:
    """The queries at one moment: those `running` (or paused), those that are not stopped (`coming`), and those that a
    restart cannot restore from the script (`known`, see `changes`)."""

    running: Mapping[str, Query]
    coming: tuple[Query, ...]
    known: tuple[tuple[Query, Query], ...]


class QueryLifecycles:
    """Remembers how queries were declared and which ONCE queries have answered. Used under the engine's lock, except
    for `answer` and `still_running`, which the driver's thread calls between two epochs."""

    def __init__(self) -> None:
        self._declared: dict[str, Query] = {}
        self._answered: set[str] = set()

    def begin(self) -> None:
        """Called when the engine starts."""
        self._answered.clear()

    def note(self, before: Mapping[str, Query], after: Mapping[str, Query], running: bool) -> bool:
        """Called after a change: records new and replaced queries as declared, or every changed one if the engine does
        not run. True if a query that has answered begins anew, which the plan does not have yet."""
        if not running:
            # What changed while the engine ran is still not what the script declares.
            known = self._declared
            self._declared = {n: new if before.get(n) != new else known.get(n, new) for n, new in after.items()}
            return False
        again = False
        for name in before.keys() | after.keys():
            new = after.get(name)
            if name not in before or new is None or not new.same_results(before[name]):
                self._declared.pop(name, None)
                again |= name in self._answered and new is not None
                self._answered.discard(name)
                if new is not None:
                    self._declared[name] = new
        return again

    def queries_at(self, queries: Mapping[str, Query], now: float) -> QueriesAtTime:
        """The queries at a time (s since 1970)."""
        coming = tuple(query for query in queries.values() if query.phase(now) != "stopped")
        return QueriesAtTime(active(queries, now), coming, changes({**queries, **self._declared}, queries, now))

    def answer(self, queries: Iterable[str]) -> None:
        """Records that these ONCE queries have answered."""
        self._answered.update(queries)

    def still_running(self, current: QueriesAtTime) -> tuple[Query, ...]:
        """The running queries, without the ONCE queries that have answered since."""
        running = current.running.items()
        return tuple(query for name, query in running if not (query.once and name in self._answered))

    def answered_queries(self, queries: Mapping[str, Query]) -> list[Query]:
        """The ONCE queries that have answered, marked as stopped."""
        found = [queries[name] for name in list(self._answered) if name in queries and queries[name].once]
        return [replace(query, stopped=True) for query in found if not query.stopped]

    def check_all_run(self, queries: Mapping[str, Query]) -> None:
        """Checks before `run_once` that every query can answer; EngineError if one cannot."""
        for name, phase in phases(queries, True).items():
            if phase in ("paused", "scheduled"):
                what = "is paused; resume it" if phase == "paused" else "starts later; leave out START AT"
                raise EngineError(f"query {name} {what}, or drop it, to run once")


class LifecycleTimer:
    """A thread that calls `act` at the time `due(since)` (s since 1970; None: never), and after each `act_now`.

    `since` is the time before the last `act`: what became due while that was going on is due after it. `act` is called
    without a lock; an error in it is logged. Any thread may call `wake`, `act_now` and `close`.
    """

    def __init__(
        self, due: Callable[[float], float | None], act: Callable[[], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._due = due
        self._act = act
        self._clock = clock
        self._condition = threading.Condition()
        self._woken = self._wanted = self._closed = False
        self._since = clock()
        threading.Thread(target=self._work, name="headgate-timetable", daemon=True).start()

    def wake(self) -> None:
        """Makes the thread read `due` again."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def act_now(self) -> None:
        """Makes the thread call `act` at once."""
        with self._condition:
            self._wanted = True
            self._condition.notify_all()

    def close(self) -> None:
        """Ends the thread; it does not wait for a running `act`."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _work(self) -> None:
        while not self._closed:
            if self._wait():
                try:
                    self._act()
                except Exception:
                    _LOG.exception("queries could not be started or stopped on time")

    def _wait(self) -> bool:
        """Waits until `act` may be due; whether it is."""
        due = self._due(self._since)
        with self._condition:
            wait = LONGEST_WAIT if due is None else min(due - self._clock(), LONGEST_WAIT)
            if wait > 0 and not (self._woken or self._wanted or self._closed):
                self._condition.wait(wait)
            now = self._clock()
            ready = not self._closed and (self._wanted or (due is not None and now >= due))
            self._woken = False
            if ready:
                self._wanted, self._since = False, now
            return ready

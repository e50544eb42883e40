"""The network of one replica: live operators, queues and scheduler, fed with rows and run in grants."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

import pyarrow as pa

from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.batch import FOREVER, NEVER, Arrival, Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.settings import Settings
from headgate.operators.windows import highest
from headgate.runtime import metrics
from headgate.runtime.assembly import Figures, figures, scheduler_over, statistics_from
from headgate.runtime.charges import QueryLimits, charges
from headgate.runtime.flow import Flow
from headgate.runtime.gate import Gate
from headgate.runtime.limits import Limits
from headgate.runtime.loop import Loop
from headgate.runtime.memory import Memory
from headgate.runtime.modes import Mode, arranged, mode_of, threads_for
from headgate.runtime.outbox import Outbox, Result
from headgate.runtime.quarantine import Failure, text_of
from headgate.runtime.snapshot import VERSION, States, load, policy_from, policy_state, save
from headgate.runtime.stage import Stage
from headgate.runtime.store import Folder, Store
from headgate.runtime.watch import Watch
from headgate.runtime.wiring import Wiring, key_of
from headgate.runtime.workers import Workers
from headgate.scheduling import Performance, Policy, View
from headgate.scheduling import policy as policy_of


@dataclass(frozen=True, slots=True)
class Report:
    """What one `run` did: time, grants, time inside operators, what still waits, and the queries that failed in it."""

    seconds: float
    grants: int
    operator_seconds: float
    waiting: int
    failed: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether nothing waits any more."""
        return not self.waiting


class Network:
    """Runs the queries of a shared graph, which it owns from now on: `add` and `remove` change it.

    Rows come in by `push`, are worked off by `run`, and leave by `take`. `push`, `take`, `metrics` and everything that
    changes the network may be called from any thread, also while another is in `run`.

    - `policy`: a policy or its text; may be set while running
    - `settings`: what live operators need (time zone, static tables)
    - `limits`: memory limits, how long a grant may run
    - `store`: where batches are spilled; a temporary folder if none is given
    - `clock`: gives seconds; arrival times are of this clock
    - `mode`: how threads are used (see `modes.Mode`); may be set while running
    - `threads`: how many, where the mode leaves it open; by default one, under HMTS as many as there are cores
    - `make`: makes the live operator of a node
    """

    def __init__(
        self,
        graph: SharedGraph,
        policy: str | Policy = "fifo",
        settings: Settings | None = None,
        *,
        limits: Limits | None = None,
        store: Store | None = None,
        clock: Callable[[], float] = time.perf_counter,
        mode: str = "policy",
        threads: int | None = None,
        make: Callable[[Operator, Settings], LiveOperator] = live,
    ) -> None:
        self._graph = graph
        if threads is not None and threads < 1:
            raise ValueError(f"{threads} threads cannot run anything; give at least one")
        self._policy = policy_of(policy)
        self._mode = mode_of(mode)
        self._running = arranged(self._mode, self._policy)
        self._grants_before = 0
        self._seconds_before = 0.0
        self._threads = threads
        self._settings = settings or Settings()
        self._limits = limits or Limits()
        self._clock = clock
        self._make = make
        self._gate = Gate()
        self._memory = Memory(lambda: store or Folder(), self._limits.memory, self._gate.lock)
        self._outboxes: dict[str, Outbox] = {}
        self._failures: dict[str, Failure] = {}
        self._watermarks: dict[str, int] = {}
        self._sent: dict[str, int] = {}
        self._states = States(self._memory)
        self._flow = Flow(clock)
        self._query_limits = QueryLimits(self._limits, self._memory)
        self._workers = Workers(self._gate, lambda: self._loop, self._after, self._query_limits.active, clock)
        self._watch = Watch(self._gate, self._limits.stuck, clock, self._unit_name, self._stuck)
        self._wiring: Wiring | None = None
        self._loop: Loop
        self._rewire()

    # Rows -------------------------------------------------------------------------------------------------

    def push(self, stream: str, rows: pa.RecordBatch, arrived: float | None = None, advance: bool = True) -> None:
        """Takes rows of a stream: its declared columns in order, then those that Catalyst computed, by name.

        Behind them goes the stream's watermark, which is its highest event time so far less its delay. Without
        `advance`, the watermark is left to a call of `advance`, and the rows until then are behind the same watermark.
        Rows of a stream that no query reads any more are dropped. Raises KeyError for a stream that no query ever read.
        """
        since = self._clock() if arrived is None else arrived
        source = self._source(stream)
        newest = None
        if source is not None and source.time is not None and rows.num_rows:
            newest = highest(rows.column(source.time))
        with self._entering() as flow:
            if rows.num_rows:
                batch = Batch(rows, Arrival.at(since, rows.num_rows), self._sent[stream])
                self._loop.enter(stream, batch, since, flow)
            if newest is not None and source is not None:
                self._watermarks[stream] = max(self._watermarks[stream], newest - source.delay)
            if advance:
                self._advance(stream, since, flow)

    def advance(self, stream: str, arrived: float | None = None) -> None:
        """Sends the watermark that belongs behind the rows pushed so far."""
        since = self._clock() if arrived is None else arrived
        self._source(stream)
        with self._entering() as flow:
            self._advance(stream, since, flow)

    def _advance(self, stream: str, since: float, flow: Flow) -> None:
        watermark = self._sent[stream] = self._watermarks[stream]
        self._loop.enter(stream, watermark, since, flow)

    def finish(self) -> None:
        """Ends every stream: behind all that waits goes the watermark that completes everything."""
        since = self._clock()
        with self._entering() as flow:
            for stream in self._watermarks:
                self._watermarks[stream] = FOREVER
                self._advance(stream, since, flow)

    def take(self, query: str) -> list[Result]:
        """The results of a query since the last call, which leave the network with it."""
        with self._gate.lock:
            outbox = self._outbox(query)
            held, outbox.waiting = outbox.waiting, []
            taken: list[Result] = []
            for each in held:
                taken.append(outbox.result(self._memory.batch(each).rows, each.arrival))
                self._memory.release(each)
            if query not in self._graph.queries:
                del self._outboxes[query]
            return taken

    @contextmanager
    def _entering(self) -> Iterator[Flow]:
        """Holds the lock to put rows in; where a stream has no queue, waits until its operators are free."""
        flow = Flow(self._clock)
        with self._gate.lock:
            if self._loop.doors:
                with self._gate.still():
                    self._loop.prepare()
                    yield flow
            else:
                yield flow
        self._after(flow)

    def _source(self, stream: str) -> Source | None:
        source = self._sources.get(stream)
        if source is not None or stream in self._watermarks:
            return source
        known = ", ".join(sorted(self._watermarks)) or "none"
        raise KeyError(f"no query reads a stream named {stream}; the streams read are: {known}")

    def _outbox(self, query: str) -> Outbox:
        if query not in self._outboxes:
            known = ", ".join(sorted(self._outboxes)) or "none"
            raise KeyError(f"there is no query named {query}; there are: {known}")
        return self._outboxes[query]

    # Running ----------------------------------------------------------------------------------------------

    def run(self, budget: float | None = None, soon: float | None = None) -> Report:
        """Grants units until nothing is ready or the budget (s) is spent; what is left stays in the queues.

        After `soon` seconds it ends as soon as nothing waits for the highest class, so that its results can go.
        Called by one thread at a time. With several threads it returns when none of them runs a grant any more.
        """
        began = self._clock()
        until = inf if budget is None else began + budget
        hurry = inf if soon is None else began + soon
        failed, grants = len(self._failures), self._granted
        spent = self._flow.seconds + self._workers.seconds
        with self._gate.lock:
            self._watch.wake()
            if self._wanted_threads > 1:
                self._workers.resize(self._wanted_threads)
        if self._wanted_threads == 1:
            self._run_here(until, hurry)
        else:
            self._workers.run(until, hurry)
        with self._gate.lock:
            return Report(
                self._clock() - began,
                self._granted - grants,
                self._flow.seconds + self._workers.seconds - spent,
                self.waiting,
                tuple(self._failures)[failed:],
            )

    def step(self) -> bool:
        """Runs one grant in this thread, whatever the mode; False if nothing is ready."""
        flow = self._flow
        done = self._loop.turn(flow)
        self._after(flow)
        return done

    def _run_here(self, until: float, hurry: float) -> None:
        flow, gate, clock = self._flow, self._gate, self._clock
        each = self._query_limits.active

        timed = min(until, hurry) < inf

        def may() -> bool:
            return not each and not (timed and over())

        def over() -> bool:
            now = clock()
            return now >= until or (now >= hurry and not self._loop.urgent)

        while True:
            with gate.lock:
                while gate.paused:
                    gate.changed.wait()
                loop = self._loop
                begun = loop.begin(flow, until)
            if begun is None:
                return
            try:
                loop.drive(begun, flow, until, may)
            finally:
                # Only if the network itself broke: nobody may wait for a grant that never ends.
                gate.running.pop(id(flow), None)
            self._after(flow)
            if timed and over():
                return

    @property
    def _wanted_threads(self) -> int:
        return threads_for(self._mode, self._running, len(self._loop.wiring.stages), self._threads)

    def _after(self, flow: Flow) -> None:
        """After a grant: takes out the queries that failed in it, and those that take too much memory."""
        if flow.errors:
            errors, flow.errors = flow.errors, []
            with self._gate.alone():
                for stage, error in errors:
                    self._fail(stage, error)
                self._rewire()
        if self._query_limits.active and self._query_limits.due:
            with self._gate.alone():
                over = self._query_limits.enforce(self._loop, self._outboxes)
                for name, reason in over.items():
                    if name in self._graph.queries:
                        self._failures[name] = self._failure(name, "", "", f"MemoryError: {reason}")
                        self._graph.remove(name)
                    for held in self._outboxes[name].waiting:
                        self._memory.release(held)
                    self._outboxes[name].waiting.clear()
                if over:
                    self._rewire()

    def _unit_name(self, unit: int) -> str:
        loop = self._loop
        operators = loop.scheduler.units[unit].operators
        queries = sorted({loop.view.topology.queries[q].name for o in operators for q in loop.view.topology.serves[o]})
        return f"{' > '.join(loop.view.topology.names(operators))} (for {', '.join(queries)})"

    def _stuck(self, count: int) -> None:
        """Under the lock: so many grants run too long. Each gets a thread in its stead, so that it stalls nobody."""
        if self._workers.working:
            self._workers.resize(self._wanted_threads + count)

    @property
    def _granted(self) -> int:
        return self._grants_before + self._loop.grants

    def close(self) -> None:
        """Ends the threads. A network that is not used any more needs no other end."""
        with self._gate.lock:
            self._workers.resize(0)

    @property
    def waiting(self) -> int:
        """Rows (and watermarks) that wait in queues."""
        return sum(queue.waiting for queue in self._loop.wiring.queues)

    @property
    def selected(self) -> dict[str, tuple[int, int]]:
        """Of each stream that only selections read: its rows so far, and how many those have kept, all together."""
        found: dict[str, tuple[int, int]] = {}
        wiring = self._loop.wiring
        for stream, edges in wiring.topology.stream_edges.items():
            first = [wiring.stages[wiring.topology.edges[e].consumer] for e in edges]
            if all(stage.kind == "select" for stage in first):
                found[stream] = (max(stage.rows_in for stage in first), sum(stage.rows_out for stage in first))
        return found

    @property
    def queued_bytes(self) -> int:
        """The bytes of the rows that wait, queue by queue: a batch that several read counts for each of them."""
        return int(sum(self._loop.view.queues.bytes))

    @property
    def held_bytes(self) -> int:
        """The memory that waiting batches and unpublished results take."""
        return self._memory.bytes

    def metrics(self) -> dict[str, Any]:
        """Figures of the network, its queries, classes, units and operators; plain values that JSON takes."""
        with self._gate.lock:
            loop, now = self._loop, self._clock()
            if not self._gate.running:
                loop.prepare()
            return {
                "policy": str(self._running),
                "mode": self._mode,
                "waiting": self.waiting,
                "memory": metrics.memory(self._memory),
                "scheduling": {
                    "decisions": loop.scheduler.decisions,
                    "grants": self._granted,
                    "seconds": self._seconds_before + loop.seconds,
                },
                "running": [
                    {
                        "unit": self._unit_name(flow.unit),
                        "seconds": now - flow.since,
                        "stuck": now - flow.since > self._limits.stuck,
                    }
                    for flow in self._gate.running.values()
                ],
                "watermarks": {s: w for s, w in self._watermarks.items() if w not in (NEVER, FOREVER)},
                "queries": metrics.queries(
                    loop,
                    self._outboxes,
                    self._graph.queries,
                    self._failures,
                    charges(loop, self._memory, self._outboxes),
                ),
                "classes": metrics.classes(loop, self._outboxes),
                "units": metrics.units(loop),
                "operators": metrics.operators(loop),
            }

    # Changes ----------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        return self._policy

    @policy.setter
    def policy(self, policy: str | Policy) -> None:
        self._policy = policy_of(policy)
        self._arrange()

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        self._mode = mode_of(mode)
        self._arrange()

    def _arrange(self) -> None:
        """Goes over to the policy and mode that are set, draining the queues that are no more."""
        with self._gate.alone():
            self._running = arranged(self._mode, self._policy)
            self._loop.scheduler.replace(self._running, self._clock())

    @property
    def queries(self) -> Mapping[str, Query]:
        """The queries that run."""
        return self._graph.queries

    @property
    def streams(self) -> frozenset[str]:
        """The streams that some query reads now."""
        return frozenset(self._sources)

    @property
    def outboxes(self) -> Mapping[str, Outbox]:
        """The outbox of every query that runs, and of those that do not any more but have results left to take."""
        return dict(self._outboxes)

    @property
    def failures(self) -> Mapping[str, Failure]:
        """The queries that failed, and why."""
        return dict(self._failures)

    def expect(self, known: Mapping[str, Figures]) -> None:
        """States what operators cost and yield before it is measured, from a model or an earlier run.

        By the operator's key (`wiring.key_of`): cost (s/row), selectivity, bytes per row in and out, rows per second.
        """
        with self._gate.alone():
            self._rewire({**figures(self._loop), **known})

    def add(self, query: Query) -> None:
        """Adds a query. It sees the rows that are pushed from now on, and those that still wait in front of an operator
        which it shares with a query that is there already."""
        with self._gate.alone():
            self._graph.add(query)
            self._failures.pop(query.name, None)
            self._rewire()

    def remove(self, name: str) -> None:
        """Removes a query and what only it needed. Results that it made before can still be taken."""
        with self._gate.alone():
            self._graph.remove(name)
            self._rewire()

    def _rewire(self, known: Mapping[str, Figures] | None = None) -> None:
        """Builds the network for the graph as it is now, around the operators and queues that stay."""
        before, old = self._wiring, getattr(self, "_loop", None)
        for query in self._graph.queries.values():
            outbox = self._outboxes.get(query.name)
            if outbox is None or outbox.query != query:
                self._outboxes[query.name] = Outbox(query)
        self._sources = {source.stream: source for _, source in self._graph.sources()}
        for stream in self._sources:
            self._watermarks.setdefault(stream, NEVER)
            self._sent.setdefault(stream, NEVER)
        if known is None:
            known = figures(old) if old is not None else {}
        wiring = Wiring(self._graph, self._outboxes, lambda node: self._make(node, self._settings), before)
        for queue in wiring.left:
            for held in queue.clear():
                self._memory.release(held)
        if before is not None:
            self._states.forget(list({s.key for s in before.stages} - {s.key for s in wiring.stages}))
        view = View.of(wiring.topology, statistics_from(wiring, known, self._clock()))
        if old is not None:
            view.performance = old.view.performance
            self._grants_before += old.grants
            self._seconds_before += old.seconds
        self._wiring = wiring
        scheduler = scheduler_over(self._running, view, wiring, self._clock())
        self._loop = Loop(wiring, scheduler, self._memory, self._gate, self._clock, self._limits)

    # Snapshots --------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The whole network as it is between two grants: a manifest of plain values, with all rows in the store.

        "parts" names the parts that it needs. Only what changed since the last snapshot is written.
        """
        with self._gate.alone():
            self._loop.settle(self._clock())
            return {
                **save(self._loop, self._memory, self._outboxes, self._states),
                "statistics": figures(self._loop),
                "watermarks": dict(self._watermarks),
                "marked": dict(self._sent),
                "policy": policy_state(self._running),
                "failures": [failure.state() for failure in self._failures.values()],
            }

    def restore(self, manifest: Mapping[str, Any]) -> None:
        """Goes on from a snapshot, whose parts are in the store; called once, on a new network.

        Queries that are new since then start fresh; what belonged to queries that are gone is left out. Arrival times
        are of the clock, so a network whose snapshots outlive the process needs a clock that does too.
        """
        if manifest.get("version") != VERSION:
            raise ValueError(
                f"the snapshot has version {manifest.get('version')}, this Headgate reads version {VERSION}; "
                "start from an empty checkpoint, or with the version that wrote it"
            )
        with self._gate.alone():
            for known in manifest["failures"]:
                failure = Failure(**known)
                query = self._graph.queries.get(failure.query)
                if query is not None and key_of(query.plan) == failure.plan:
                    self._failures[failure.query] = failure
                    self._graph.remove(failure.query)
            self._running = policy_from(manifest["policy"], self._running)
            self._rewire()
            self._watermarks.update(manifest["watermarks"])
            self._sent.update(manifest["marked"])
            load(manifest, self._loop.wiring, self._memory, self._outboxes, self._states)
            self._rewire(manifest["statistics"])
            self._loop.view.performance = Performance(**manifest["performance"])

    # Quarantine -------------------------------------------------------------------------------------------

    def _fail(self, stage: Stage, error: Exception) -> None:
        """Takes out the queries that need an operator that raised."""
        topology = self._loop.view.topology
        detail = self._graph.node(stage.number).detail
        for index in topology.serves[stage.id]:
            name = topology.queries[index].name
            if name in self._graph.queries:
                self._failures[name] = self._failure(name, topology.operators[stage.id], detail, text_of(error))
                self._graph.remove(name)

    def quarantine(self, query: str, operator: str, detail: str, error: str) -> None:
        """Takes out a query that failed before its rows came here, as if its operator had raised."""
        with self._gate.alone():
            if query in self._graph.queries:
                self._failures[query] = self._failure(query, operator, detail, error)
                self._graph.remove(query)
                self._rewire()

    def _failure(self, name: str, operator: str, detail: str, error: str) -> Failure:
        return Failure(name, operator, detail, error, self._clock(), key_of(self._graph.queries[name].plan))

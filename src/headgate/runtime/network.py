"""The network of one replica: live operators, queues and scheduler, fed with rows and run in grants."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

import pyarrow as pa

from headgate.graph.carrying import carried_state
from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.graph.specs import Objectives
from headgate.operators.batch import FOREVER, Arrival, Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.lookup import LiveLookup
from headgate.operators.send import LiveSend
from headgate.operators.settings import Settings
from headgate.operators.windows import highest
from headgate.runtime import snapshot
from headgate.runtime.dataflow import Flow, key_of
from headgate.runtime.flight import FlightRecord, Unrecorded
from headgate.runtime.limits import Failure, Limits, QueryLimits, text_of
from headgate.runtime.measurement import Figures
from headgate.runtime.memory import Memory
from headgate.runtime.metrics import network_metrics
from headgate.runtime.modes import Mode, arranged, mode_of, threads_for
from headgate.runtime.outbox import Outbox, ResultBatch
from headgate.runtime.state import NetworkState
from headgate.runtime.store import Folder, Store
from headgate.runtime.threads import StuckGrants, ThreadControl, Workers
from headgate.scheduling import Policy
from headgate.scheduling import policy as policy_of
from headgate.scheduling.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Report:
    """One `run`: its time, grants, time inside operators, the rows still waiting, and the queries that failed in it."""

    seconds: float
    grants: int
    operator_seconds: float
    waiting: int
    failed: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether nothing is waiting."""
        return not self.waiting


class Network:
    """Runs the queries of a shared graph, which it owns from now on: `add` and `remove` change it.

    Rows enter by `push`, are processed by `run`, and leave by `take`. `run` and `step` are called by one thread at a
    time; everything else may be called from any thread, also during a `run`, but never by an operator.

    One lock (`ThreadControl`) guards the state. Every method takes it (properties read single figures without it);
    methods that change the graph, the policy or the mode, and snapshots, also wait until no grant runs
    (`ThreadControl.alone`).

    - `policy`: a policy or its text; may be set while running
    - `settings`: what live operators need (time zone, static tables)
    - `limits`: limits of memory and of the time of a grant
    - `store`: where batches are spilled; a temporary folder if none is given
    - `clock`: returns seconds; arrival times are of this clock
    - `mode`: how threads are used (see `modes.Mode`); may be set while running
    - `threads`: number of threads, where the mode leaves it open; by default one, under HMTS one per core
    - `make`: creates the live operator of a node
    - `record`: where threads write what they run
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
        record: FlightRecord | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"{threads} threads cannot run anything; give at least one")
        self._settings = settings or Settings()
        self._policy = policy_of(policy)
        self._mode = mode_of(mode)
        self._threads = threads
        self._objectives: Objectives = {}
        self.single_thread = False
        """One thread runs everything, whatever the mode asks for; set between two runs."""
        self.given_watermarks = False
        """Watermarks are given by `advance_to` and do not follow the rows: other replicas have rows of the same
        streams. Set before the first rows."""
        self._limits = limits or Limits()
        self._clock = clock
        self._control = ThreadControl()
        self._memory = Memory(lambda: store or Folder(), self._limits.memory, self._control.lock)
        self._state = NetworkState(
            graph,
            arranged(self._mode, self._policy),
            lambda node: make(node, self._settings),
            self._memory,
            self._control,
            clock,
            self._limits.grant,
            record or Unrecorded(),
        )
        self._flow = Flow(clock)
        self._query_limits = QueryLimits(self._limits, self._memory)
        self._workers = Workers(self._control, lambda: self._state.loop, self._after, self._query_limits.active, clock)
        self._stuck = StuckGrants(self._control, self._limits.stuck, clock, self._state.unit_name, self._replace_stuck)

    # Rows -------------------------------------------------------------------------------------------------

    def push(self, stream: str, rows: pa.RecordBatch, arrived: float | None = None, advance: bool = True) -> None:
        """Takes rows of a stream: its declared columns in order, then those that Catalyst computed, by name.

        Behind them goes the stream's watermark, which is its highest event time so far less its delay, unless
        watermarks are given. Without
        `advance`, the watermark is left to a call of `advance`, and the rows until then are behind the same watermark.
        Rows of a stream that no query reads any more are dropped. Raises KeyError for a stream that no query ever read.
        """
        since = self._clock() if arrived is None else arrived
        source = self._source(stream)
        newest = None
        if source is not None and source.time is not None and rows.num_rows:
            newest = highest(rows.column(source.time))
        with self._entering() as flow:
            state = self._state
            if rows.num_rows:
                batch = Batch(rows, Arrival.at(since, rows.num_rows), state.sent[stream])
                state.loop.enter(stream, batch, since, flow)
            if newest is not None and source is not None:
                state.newest[stream] = max(state.newest.get(stream, newest), newest)
                if not self.given_watermarks:
                    state.watermarks[stream] = max(state.watermarks[stream], newest - source.delay)
            if advance:
                self._advance(stream, since, flow)

    def advance(self, stream: str, arrived: float | None = None) -> None:
        """Sends the watermark that belongs behind the rows pushed so far."""
        since = self._clock() if arrived is None else arrived
        self._source(stream)
        with self._entering() as flow:
            self._advance(stream, since, flow)

    def advance_to(self, stream: str, newest: int, arrived: float | None = None) -> None:
        """Raises the watermark of a stream to that of an event time (microseconds) which it has reached anywhere, and
        sends it; does nothing if the watermark is there already."""
        source = self._source(stream)
        if source is not None:
            self.catch_up(stream, newest - source.delay, arrived)

    def catch_up(self, stream: str, watermark: int, arrived: float | None = None) -> None:
        """Raises the watermark of a stream and sends it; does nothing if it is there already."""
        since = self._clock() if arrived is None else arrived
        source = self._source(stream)
        if source is None or source.time is None:
            return
        with self._entering() as flow:
            watermark = max(self._state.watermarks[stream], watermark)
            self._state.watermarks[stream] = watermark
            if watermark > self._state.sent[stream]:
                self._advance(stream, since, flow)

    def reach(self, stream: str, watermark: int) -> None:
        """Sends the watermark of a stream that comes from another fragment, behind the rows pushed so far."""
        since = self._clock()
        self._source(stream)
        with self._entering() as flow:
            self._state.watermarks[stream] = max(self._state.watermarks[stream], watermark)
            self._advance(stream, since, flow)

    def finish(self, streams: Iterable[str] | None = None) -> None:
        """Ends every stream, or some: behind all waiting rows goes the watermark that completes everything."""
        since = self._clock()
        with self._entering() as flow:
            for stream in list(self._state.watermarks if streams is None else streams):
                self._state.watermarks[stream] = FOREVER
                self._advance(stream, since, flow)

    def _advance(self, stream: str, since: float, flow: Flow) -> None:
        state = self._state
        watermark = state.sent[stream] = state.watermarks[stream]
        state.loop.enter(stream, watermark, since, flow)

    @contextmanager
    def _entering(self) -> Iterator[Flow]:
        """Holds the lock to put rows in; if a stream has an edge without a queue, first waits until no grant runs."""
        flow = Flow(self._clock)
        with self._control.alone(lambda: self._state.loop.unqueued_sources):
            yield flow
        if self._memory.bytes > self._memory.limit:
            self._memory.spill()
        self._after(flow)

    def _source(self, stream: str) -> Source | None:
        source = self._state.sources.get(stream)
        if source is not None or stream in self._state.watermarks:
            return source
        known = ", ".join(sorted(self._state.watermarks)) or "none"
        raise KeyError(f"no query reads a stream named {stream}; the streams read are: {known}")

    def take(self, query: str) -> list[ResultBatch]:
        """Removes and returns the results of a query since the last call."""
        outboxes = self._state.outboxes
        with self._control.lock:
            if query not in outboxes:
                known = ", ".join(sorted(outboxes)) or "none"
                raise KeyError(f"there is no query named {query}; there are: {known}")
            outbox = outboxes[query]
            taken, outbox.waiting = outbox.waiting, []
            for queued in taken:
                queued.pins += 1
        spilled = 0
        results: list[ResultBatch] = []
        try:
            for queued in taken:
                batch = queued.batch
                rows = self._memory.stored_rows(queued) if batch is None else batch.rows
                spilled += batch is None
                results.append(outbox.result(rows, queued.arrival))
        except OSError:
            with self._control.lock:
                outbox.waiting[:0] = taken
                for queued in taken:
                    queued.pins -= 1
            raise
        with self._control.lock:
            self._memory.read_batches += spilled
            for queued in taken:
                queued.pins -= 1
                self._memory.release(queued)
            if query not in self._state.graph.queries:
                outboxes.pop(query, None)
        return results

    # Running ----------------------------------------------------------------------------------------------

    def run(
        self,
        budget: float | None = None,
        soon: float | None = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> Report:
        """Runs grants until no unit is ready or the budget (s) is spent; the remaining rows stay in the queues.

        After `soon` seconds it ends as soon as nothing waits for the highest class: its results can be published.
        It also ends when `interrupted()`, which is asked after every grant, by any thread and under the lock.
        With several threads it returns when none of them runs a grant any more.
        """
        began = self._clock()
        until = inf if budget is None else began + budget
        hurry = inf if soon is None else began + soon
        failed, grants = len(self._state.failures), self._state.grants
        spent = self._flow.seconds + self._workers.seconds
        with self._control.lock:
            self._stuck.start()
            if self._wanted_threads > 1:
                self._workers.resize(self._wanted_threads)
        if self._wanted_threads == 1:
            self._run_here(until, hurry, interrupted)
        else:
            self._workers.run(until, hurry, interrupted)
        with self._control.lock:
            return Report(
                self._clock() - began,
                self._state.grants - grants,
                self._flow.seconds + self._workers.seconds - spent,
                self.waiting,
                tuple(self._state.failures)[failed:],
            )

    def step(self) -> bool:
        """Runs one grant in this thread, in any mode; False if no unit is ready."""
        flow = self._flow
        done = self._state.loop.step(flow)
        self._after(flow)
        return done

    def close(self) -> None:
        """Ends the threads. A network needs no other end."""
        with self._control.lock:
            self._workers.resize(0)

    def _run_here(self, until: float, hurry: float, interrupted: Callable[[], bool] | None) -> None:
        flow, control, clock = self._flow, self._control, self._clock
        each = self._query_limits.active
        timed = min(until, hurry) < inf or interrupted is not None

        def over() -> bool:
            if interrupted is not None and interrupted():
                return True
            now = clock()
            return now >= until or (now >= hurry and not self._state.loop.urgent)

        def may_continue() -> bool:
            return not each and not (timed and over())

        while True:
            with control.lock:
                while control.paused:
                    control.changed.wait()
                loop = self._state.loop
                unit = loop.begin(flow, until)
            if unit is None:
                return
            try:
                loop.drive(unit, flow, until, may_continue)
            finally:
                # Only if the network itself failed: no caller may wait for a grant that never ends.
                control.running.pop(id(flow), None)
            self._after(flow)
            if timed and over():
                return

    @property
    def _wanted_threads(self) -> int:
        return (
            1
            if self.single_thread
            else threads_for(self._mode, self._state.policy, len(self._state.wiring.stages), self._threads)
        )

    def _replace_stuck(self, count: int) -> None:
        """Under the lock: each stuck grant gets another thread in its place, so that it stalls no other query."""
        if self._workers.working:
            self._workers.resize(self._wanted_threads + count)

    def _after(self, flow: Flow) -> None:
        """Without the lock, after a grant: removes queries that failed in it and queries that use too much memory."""
        state, limits = self._state, self._query_limits
        if flow.errors:
            errors, flow.errors = flow.errors, []
            with self._control.alone():
                for stage, error in errors:
                    state.fail_stage(stage, text_of(error))
                state.rebuild()
        if not limits.active or not limits.due:
            return
        with self._control.alone():
            spills = limits.plan_spills(state.wiring, state.outboxes)
        for spill in spills:
            self._memory.carry_out(spill)
        with self._control.alone():
            exceeded = limits.exceeded(state.wiring, state.outboxes)
            for query, reason in exceeded.items():
                state.fail(query, "", "", f"MemoryError: {reason}")
                for queued in state.outboxes[query].waiting:
                    self._memory.release(queued)
                state.outboxes[query].waiting.clear()
            if exceeded:
                state.rebuild()

    # Figures ----------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, Any]:
        """Figures of the network, its queries, classes, units and operators, as plain values for JSON."""
        with self._control.lock:
            return network_metrics(self._state, self._mode, self._limits.stuck)

    @property
    def waiting(self) -> int:
        """Rows (and watermarks) that wait in queues, without those of paused queries."""
        loop = self._state.loop
        return sum(queue.waiting for edge, queue in enumerate(loop.wiring.queues) if edge not in loop.held.edges)

    def progress(self, query: str) -> tuple[int, int]:
        """The result rows of a query so far, and the rows and watermarks that wait for its operators."""
        with self._control.lock:
            topology, waiting = self._state.wiring.topology, 0
            number = next(n for n, each in enumerate(topology.queries) if each.name == query)
            for edge, queue in zip(topology.edges, self._state.wiring.queues, strict=True):
                if number in topology.serves[edge.consumer]:
                    waiting += queue.waiting
            return self._state.outboxes[query].rows, waiting

    @property
    def selected(self) -> dict[str, tuple[int, int]]:
        """For each stream read only by selections: its rows so far, and the rows kept by all selections together."""
        found: dict[str, tuple[int, int]] = {}
        wiring = self._state.wiring
        for stream, edges in wiring.topology.stream_edges.items():
            first = [wiring.stages[wiring.topology.edges[e].consumer] for e in edges]
            if all(stage.kind == "select" for stage in first):
                found[stream] = (max(stage.rows_in for stage in first), sum(stage.rows_out for stage in first))
        return found

    @property
    def newest(self) -> dict[str, int]:
        """The newest event time (microseconds) of each stream among the rows pushed into this network."""
        return dict(self._state.newest)

    @property
    def reached(self) -> dict[str, int]:
        """The watermark of each fragment: all its results up to it have been made. Read between two runs."""
        stages = ((stage, stage.live) for stage in self._state.wiring.stages)
        return {
            outbox.query.name: live.reached
            for stage, live in stages
            if isinstance(live, LiveSend)
            for outbox in stage.outboxes
        }

    @property
    def queued_bytes(self) -> int:
        """The bytes of waiting rows, queue by queue: a batch with several readers counts for each of them."""
        return int(sum(self._state.loop.view.queues.bytes))

    @property
    def memory_bytes(self) -> int:
        """The memory of waiting batches and unpublished results."""
        return self._memory.bytes

    @property
    def queries(self) -> Mapping[str, Query]:
        """The running queries."""
        return self._state.graph.queries

    @property
    def streams(self) -> frozenset[str]:
        """The streams that some query reads now."""
        return frozenset(self._state.sources)

    @property
    def outboxes(self) -> Mapping[str, Outbox]:
        """The outboxes of all running queries, and of removed ones with results left to take."""
        return dict(self._state.outboxes)

    @property
    def failures(self) -> Mapping[str, Failure]:
        """The queries that failed, and why."""
        return dict(self._state.failures)

    # Changes ----------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        return self._policy

    @policy.setter
    def policy(self, policy: str | Policy) -> None:
        self._policy = policy_of(policy)
        self._arrange()

    @property
    def threads(self) -> int | None:
        """The number of threads, where the mode leaves it open; may be set while running."""
        return self._threads

    @threads.setter
    def threads(self, threads: int | None) -> None:
        with self._control.alone():
            self._threads = threads

    @property
    def objectives(self) -> Objectives:
        """The weights of the metrics that a policy which learns pursues; empty: its own. May be set while running; what
        was learned is kept."""
        return self._objectives

    @objectives.setter
    def objectives(self, objectives: Objectives) -> None:
        with self._control.alone():
            self._objectives = dict(objectives)
            self._state.policy.pursue(self._objectives)

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        self._mode = mode_of(mode)
        self._arrange()

    def _arrange(self) -> None:
        """Changes to the present policy and mode; queues that the new cut does not have are drained first."""
        with self._control.alone():
            before, self._state.policy = self._state.policy, arranged(self._mode, self._policy)
            self._state.policy.continues(before)
            self._state.policy.pursue(self._objectives)
            self._state.loop.scheduler.replace(self._state.policy, self._clock())

    def add(self, query: Query) -> None:
        """Adds a query. It sees the rows pushed from now on, and the rows still waiting for an operator that it shares
        with a present query."""
        with self._control.alone():
            self._state.graph.add(query)
            self._state.failures.pop(query.name, None)
            if query.name in self._state.outboxes:
                # Of a query that was removed: its results may still be taken, but the figures begin anew.
                self._state.outboxes[query.name].forget()
            self._state.rebuild()

    def alter(self, query: Query) -> None:
        """Gives a running query another class or spec, pauses or resumes it. Its operators keep their state, queues
        and statistics; what waits for a paused query is kept or dropped (`pausing.py`)."""
        with self._control.alone():
            self._state.graph.replace(query)
            self._state.rebuild()

    def swap(self, query: Query) -> None:
        """Gives a running query an equivalent plan. Rows that wait for it are worked off first; results and state stay.

        ValueError if that would lose state: then nothing changes.
        """
        old = self._state.graph.queries[query.name]
        carried = carried_state(old.plan, query.plan)
        if carried is None or old.plan.schema.names != query.plan.schema.names or query.pause:
            raise ValueError(f"query {query.name} has state that another plan does not have; it keeps its plan")
        taken = {new: before for new, before in carried.items() if new != before}
        if any(new in each.plan.walk() for new in taken for each in self._state.graph.queries.values()):
            raise ValueError(f"another query runs that plan, with a state of its own; {query.name} keeps its plan")
        self.run()
        with self._control.alone():
            states = {key_of(new): self._state.stage(before).live.snapshot() for new, before in taken.items()}
            self._state.graph.remove(query.name)
            self._state.graph.add(query)
            self._state.outboxes[query.name].query = query
            self._state.rebuild()
            for new in taken:
                self._state.stage(new).live.restore(states[key_of(new)])

    def remove(self, name: str, discard: bool = False) -> None:
        """Removes a query and everything only it needed. Its earlier results can still be taken, unless they are to be
        discarded."""
        with self._control.alone():
            self._state.graph.remove(name)
            if discard:
                for queued in self._state.outboxes.pop(name).waiting:
                    self._memory.release(queued)
            self._state.rebuild()

    def renew_tables(self, settings: Settings) -> None:
        """Lets the joins with static tables see other rows, from the next grant on."""
        with self._control.alone():
            self._settings = settings
            for stage in self._state.wiring.stages:
                if isinstance(stage.live, LiveLookup):
                    stage.live.renew(settings)

    def quarantine(self, query: str, operator: str, detail: str, error: str) -> None:
        """Removes a query that failed before its rows reached the network, as if its operator had raised."""
        with self._control.alone():
            self._state.fail(query, operator, detail, error)
            self._state.rebuild()

    def refuse(self, failure: Failure) -> None:
        """Records the failure of a query that is not in the network."""
        with self._control.lock:
            self._state.failures[failure.query] = failure

    def expect(self, known: Mapping[str, Figures]) -> None:
        """Sets cost and yield of operators before they are measured, from a model or an earlier run.

        By the operator's key (`dataflow.key_of`): cost (s/row), selectivity, bytes per row in and out, rows per second.
        """
        with self._control.alone():
            self._state.rebuild({**self._state.figures(), **known})

    def freeze_statistics(self) -> Statistics:
        """The statistics, whose estimates do not change from now on: a simulation can run with the same ranks."""
        with self._control.alone():
            statistics = self._state.loop.view.statistics
            statistics.frozen = True
            return statistics

    # Snapshots --------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The whole network between two grants: a manifest of plain values, with all rows in the store.

        "parts" names the parts that it needs. Only what changed since the last snapshot is written.
        """
        with self._control.alone():
            return snapshot.save(self._state)

    def restore(self, manifest: Mapping[str, Any]) -> None:
        """Continues from a snapshot, whose parts are in the store; called once, on a new network.

        Queries that are new since then start fresh; the state of removed queries is left out. Arrival times are of the
        clock, so a network whose snapshots outlive the process needs a clock that does too.
        """
        if manifest.get("version") not in snapshot.READABLE:
            readable = " and ".join(map(str, snapshot.READABLE))
            raise ValueError(
                f"the snapshot has version {manifest.get('version')}, this Headgate reads versions {readable}; "
                "start from an empty checkpoint, or with the version that wrote it"
            )
        with self._control.alone():
            snapshot.restore(self._state, manifest)
            self._state.policy.pursue(self._objectives)

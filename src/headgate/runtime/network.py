"""The network of one replica: live operators, queues and scheduler, fed with rows and run in grants."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import pyarrow as pa

from headgate.graph.carrying import carried_state
from headgate.graph.operators import Operator
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.graph.specs import Objectives
from headgate.operators.contract import LiveOperator
from headgate.operators.live import live
from headgate.operators.lookup import LiveLookup
from headgate.operators.settings import Settings
from headgate.runtime import snapshot
from headgate.runtime.current import feed_current_rows
from headgate.runtime.dataflow import key_of, plan_key
from headgate.runtime.flight import FlightRecord, Unrecorded
from headgate.runtime.grants import GrantRunner, Report
from headgate.runtime.handover import handover
from headgate.runtime.intake import Intake
from headgate.runtime.limits import Failure, Limits
from headgate.runtime.measurement import Figures
from headgate.runtime.memory import Memory
from headgate.runtime.metrics import network_metrics
from headgate.runtime.modes import Mode, arranged, mode_of
from headgate.runtime.outbox import Outbox, ResultBatch
from headgate.runtime.state import NetworkState
from headgate.runtime.store import Folder, Store
from headgate.runtime.threads import ThreadControl
from headgate.scheduling import Policy
from headgate.scheduling import policy as policy_of
from headgate.scheduling.statistics import Statistics


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
        self._objectives: Objectives = {}
        self._limits = limits or Limits()
        self._clock = clock
        self._control = ThreadControl()
        self._memory = Memory(lambda: store or Folder(), self._limits.memory, self._control.lock)
        self._state = NetworkState(
            graph,
            arranged(mode_of(mode), self._policy),
            lambda node: make(node, self._settings),
            self._memory,
            self._control,
            clock,
            self._limits.grant,
            record or Unrecorded(),
        )
        self._grants = GrantRunner(self._state, self._limits, mode_of(mode), threads)
        self._intake = Intake(self._state, self._grants.after)

    @property
    def single_thread(self) -> bool:
        """One thread runs everything, whatever the mode asks for; set between two runs."""
        return self._grants.single_thread

    @single_thread.setter
    def single_thread(self, single: bool) -> None:
        self._grants.single_thread = single

    @property
    def given_watermarks(self) -> bool:
        """Whether watermarks are set by `advance_to` instead of following the rows, because other replicas have rows of
        the same streams. Set before the first rows."""
        return self._intake.given_watermarks

    @given_watermarks.setter
    def given_watermarks(self, given: bool) -> None:
        self._intake.given_watermarks = given

    # Rows -------------------------------------------------------------------------------------------------

    def push(self, stream: str, rows: pa.RecordBatch, arrived: float | None = None, advance: bool = True) -> None:
        """Takes rows of a stream: its declared columns in order, then those that Catalyst computed, by name.

        The stream's watermark, its highest event time so far less its delay, follows them, unless `given_watermarks`.
        If `advance` is False, a later call of `advance` sends the watermark; all rows pushed until then have the same
        watermark. Rows of a stream that no query reads any more are dropped. Raises KeyError for a
        stream that no query ever read.
        """
        self._intake.push(stream, rows, arrived, advance)

    def advance(self, stream: str, arrived: float | None = None) -> None:
        """Sends the watermark that belongs behind the rows pushed so far."""
        self._intake.advance(stream, arrived)

    def advance_to(self, stream: str, newest: int, arrived: float | None = None) -> None:
        """Raises the watermark of a stream to that of `newest`, its newest event time (microseconds) on any replica,
        and sends it; does nothing if the watermark is not behind."""
        self._intake.advance_to(stream, newest, arrived)

    def catch_up(self, stream: str, watermark: int, arrived: float | None = None) -> None:
        """Raises the watermark of a stream and sends it; does nothing if it is not behind."""
        self._intake.catch_up(stream, watermark, arrived)

    def reach(self, stream: str, watermark: int) -> None:
        """Sends the watermark of a stream that comes from another fragment, behind the rows pushed so far."""
        self._intake.reach(stream, watermark)

    def finish(self, streams: Iterable[str] | None = None) -> None:
        """Ends every stream, or some: behind all waiting rows goes the watermark that completes everything."""
        self._intake.finish(streams)

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
        serving: Collection[str] = (),
        awaited: Collection[str] = (),
        patience: float = inf,
    ) -> Report:
        """Runs grants until no unit is ready or the budget (s) is spent; the remaining rows stay in the queues.

        After `soon` seconds it ends as soon as nothing waits for the highest class: its results can be published.
        With `serving`, names of streams, it ends as soon as nothing waits for the highest class that reads one of them.
        It also ends when `interrupted()`, which is called after every grant, by any thread and under the lock.
        With several threads it returns when none of them runs a grant any more.

        Then, for at most `patience` seconds, it runs what still waits for the `awaited` queries, whatever their class,
        before everything else.
        """
        return self._grants.run(budget, soon, interrupted, serving, awaited, patience)

    def start_threads(self) -> None:
        """Starts the threads that `run` uses, if it uses any: with the niceness of this thread, not that of `run`'s."""
        self._grants.start_threads()

    def step(self) -> bool:
        """Runs one grant in this thread, in any mode; False if no unit is ready."""
        return self._grants.step()

    def close(self) -> None:
        """Ends the threads. No other clean-up is needed."""
        self._grants.close()

    # Figures ----------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, Any]:
        """Figures of the network, its queries, classes, units and operators, as plain values for JSON."""
        with self._control.lock:
            return network_metrics(self._state, self.mode, self._limits.stuck)

    @property
    def waiting(self) -> int:
        """Rows (and watermarks) that wait in queues, without those of paused queries."""
        return self._state.waiting

    def progress(self, query: str) -> tuple[int, int]:
        """The result rows of a query so far, and the rows and watermarks that wait for its operators."""
        with self._control.lock:
            return self._state.outboxes[query].rows, self._state.waiting_for(query)

    @property
    def selected(self) -> dict[str, tuple[int, int]]:
        """For each stream read only by selections: its rows so far, and the rows kept by all selections together."""
        return self._state.selected

    @property
    def newest(self) -> dict[str, int]:
        """The newest event time (microseconds) of each stream among the rows pushed into this network."""
        return dict(self._state.newest)

    @property
    def reached(self) -> dict[str, int]:
        """The watermark of each fragment: all its results up to it have been made. Read between two runs."""
        return self._state.reached

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
        """The policy; may be set while running."""
        return self._policy

    @policy.setter
    def policy(self, policy: str | Policy) -> None:
        self._policy = policy_of(policy)
        self._arrange()

    @property
    def threads(self) -> int | None:
        """The number of threads, where the mode leaves it open; may be set while running."""
        return self._grants.threads

    @threads.setter
    def threads(self, threads: int | None) -> None:
        with self._control.alone():
            self._grants.threads = threads

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
        """How threads are used; may be set while running."""
        return self._grants.mode

    @mode.setter
    def mode(self, mode: str) -> None:
        self._grants.mode = mode_of(mode)
        self._arrange()

    def _arrange(self) -> None:
        """Changes to the present policy and mode; queues that the new cut does not have are drained first."""
        with self._control.alone():
            before, self._state.policy = self._state.policy, arranged(self.mode, self._policy)
            self._state.policy.continues(before)
            self._state.policy.pursue(self._objectives)
            self._state.loop.scheduler.replace(self._state.policy, self._clock())

    def add(self, query: Query) -> None:
        """Adds a query. It sees the rows pushed from now on, the rows still waiting for an operator that it shares with
        a present query, and the current rows of the queries that update below it."""
        with self._control.alone():
            self._state.graph.add(query)
            self._state.failures.pop(query.name, None)
            if query.name in self._state.outboxes:
                # The outbox of a removed query of this name: its results can still be taken, but its figures restart.
                self._state.outboxes[query.name].forget()
            self._state.rebuild()
            if feed_current_rows(self._state, {query.name}):
                self._state.rebuild()

    def alter(self, query: Query) -> None:
        """Gives a running query another class or spec, pauses or resumes it. Its operators keep their state, queues
        and statistics; what waits for a paused query is kept or dropped (`pausing.py`)."""
        with self._control.alone():
            self._state.graph.replace(query)
            self._state.rebuild()

    def swap(self, query: Query) -> None:
        """Gives a running query an equivalent plan; results and state stay. What waits in front of the operators that
        change goes to the new ones; only what waits between two of them is processed first (`handover.py`).

        ValueError if that would lose state: then nothing changes. A query that fails meanwhile stays failed.
        """
        old = self._state.graph.queries[query.name]
        carried = carried_state(old.plan, query.plan)
        if carried is None or old.plan.schema.names != query.plan.schema.names or query.pause:
            raise ValueError(f"query {query.name} has state that another plan does not have; it keeps its plan")
        taken = {new: before for new, before in carried.items() if new != before}
        if any(new in each.plan.walk() for new in taken for each in self._state.graph.queries.values()):
            raise ValueError(f"another query runs that plan, with its own state; {query.name} keeps its plan")
        way = handover(self._state.graph, query.name, query.plan)
        if way is None:
            self.run()
        elif way.inner:
            self._run_only(way.inner)
        with self._control.alone():
            if query.name not in self._state.graph.queries:
                failure = self._state.failures[query.name]
                self._state.failures[query.name] = replace(failure, plan=plan_key(query))
                return
            states = {key_of(new): self._state.stage(before).live.snapshot() for new, before in taken.items()}
            self._state.graph.remove(query.name)
            self._state.graph.add(query)
            self._state.outboxes[query.name].query = query
            self._state.rebuild(moved=None if way is None else way.moved)
            for new in taken:
                self._state.stage(new).live.restore(states[key_of(new)])

    def _run_only(self, edges: frozenset[str]) -> None:
        """Processes what waits on some edges, and nothing else."""
        self._hold_others(edges)
        try:
            self.run()
        finally:
            self._hold_others(frozenset())

    def _hold_others(self, changing: frozenset[str]) -> None:
        """Holds all edges but these, or none if there are none."""
        with self._control.alone():
            self._state.changing = changing
            self._state.rebuild()

    def remove(self, name: str, discard: bool = False) -> None:
        """Removes a query and everything only it needed. Its earlier results can still be taken, unless
        `discard`."""
        with self._control.alone():
            self._state.graph.remove(name)
            if discard:
                for queued in self._state.outboxes.pop(name).waiting:
                    self._memory.release(queued)
            self._state.rebuild()

    def renew_tables(self, settings: Settings) -> None:
        """Gives the joins with static tables the tables of `settings`, from the next grant on."""
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

        Queries that are new since then start fresh; the state of removed queries is left out. Arrival times are
        readings of the clock: if snapshots outlive the process, the clock must continue across processes.
        """
        with self._control.alone():
            snapshot.restore(self._state, manifest)
            self._state.policy.pursue(self._objectives)

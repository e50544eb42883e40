"""Runs the grants of a network, in the caller's thread or on workers, and removes the queries that fail in them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf

from headgate.runtime.dataflow import Flow, never
from headgate.runtime.limits import Limits, QueryLimits, text_of
from headgate.runtime.modes import Mode, threads_for
from headgate.runtime.state import NetworkState
from headgate.runtime.threads import StuckGrants, Workers


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


class GrantRunner:
    """Runs grants. `run` and `step` are called by one thread at a time, without the lock.

    - `mode`, `threads`: see `Network`; changed while no grant runs
    - `single_thread`: one thread runs everything, whatever the mode asks for
    - `flow`: the flow of the caller's thread
    """

    def __init__(self, state: NetworkState, limits: Limits, mode: Mode, threads: int | None) -> None:
        self._state = state
        self._control = state.control
        self._clock = clock = state.clock
        self.mode = mode
        self.threads = threads
        self.single_thread = False
        self.flow = Flow(clock)
        self._query_limits = QueryLimits(limits, state.memory)
        self._workers = Workers(state.control, lambda: state.loop, self.after, self._query_limits.active, clock)
        self._stuck = StuckGrants(state.control, limits.stuck, clock, state.unit_name, self._replace_stuck)

    def run(
        self,
        budget: float | None = None,
        soon: float | None = None,
        interrupted: Callable[[], bool] | None = None,
        serving: Collection[str] = (),
        awaited: Collection[str] = (),
        patience: float = inf,
    ) -> Report:
        """See `Network.run`."""
        began = self._clock()
        until = inf if budget is None else began + budget
        hurry = inf if soon is None else began + soon
        failed, grants = len(self._state.failures), self._state.grants
        spent = self.flow.seconds + self._workers.seconds
        with self._control.lock:
            self._stuck.start()
            self._start_threads()
            served = self._state.loop.highest_class(serving)
            if serving:
                self._state.loop.scheduler.prefer(served)

        def over() -> bool:
            loop = self._state.loop
            if interrupted is not None and interrupted():
                return True
            if serving and not loop.waits_for(served):
                return True
            return hurry < inf and self._clock() >= hurry and not loop.waits_for(0)

        asked = serving or interrupted is not None or hurry < inf
        if serving and over():
            pass
        else:
            self._run_until(until, over if asked else None)
        if awaited:
            self._run_first(awaited, self._clock() + patience, interrupted)
        with self._control.lock:
            return Report(
                self._clock() - began,
                self._state.grants - grants,
                self.flow.seconds + self._workers.seconds - spent,
                self._state.waiting,
                tuple(self._state.failures)[failed:],
            )

    def step(self) -> bool:
        """See `Network.step`."""
        flow = self.flow
        done = self._state.loop.step(flow)
        self.after(flow)
        return done

    def close(self) -> None:
        """See `Network.close`."""
        with self._control.lock:
            self._workers.resize(0)
        self._stuck.stop()

    def _run_until(self, until: float, over: Callable[[], bool] | None) -> None:
        """Runs grants until no unit is ready, until `until`, or until `over()`."""
        if self._wanted_threads > 1:
            self._workers.run(until, over)
            return
        self.flow.over = over or never
        try:
            self._run_here(until, over)
        finally:
            self.flow.over = never

    def _run_first(self, queries: Collection[str], until: float, interrupted: Callable[[], bool] | None) -> None:
        """Runs what waits for some queries, before everything else; ends if another query fails meanwhile."""
        lock, state = self._control.lock, self._state
        loop = state.loop
        edges = loop.edges_to(queries)

        def over() -> bool:
            replaced = state.loop is not loop
            return replaced or not loop.waits_on(edges) or (interrupted is not None and interrupted())

        with lock:
            if over():
                return
            loop.scheduler.first(edges)
        self._run_until(until, over)
        with lock:
            loop.scheduler.first(())

    def _run_here(self, until: float, over: Callable[[], bool] | None) -> None:
        flow, control, clock = self.flow, self._control, self._clock
        each = self._query_limits.active

        def ends() -> bool:
            return (over is not None and over()) or (until < inf and clock() >= until)

        def may_continue() -> bool:
            return not each and not ends()

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
                # Still registered only if the network itself failed: no caller may wait for a grant that never ends.
                control.running.pop(id(flow), None)
            self.after(flow)
            if ends():
                return

    def start_threads(self) -> None:
        """See `Network.start_threads`."""
        with self._control.lock:
            self._start_threads()

    def _start_threads(self) -> None:
        if self._wanted_threads > 1:
            self._workers.resize(self._wanted_threads)

    @property
    def _wanted_threads(self) -> int:
        if self.single_thread:
            return 1
        return threads_for(self.mode, self._state.policy, len(self._state.wiring.stages), self.threads)

    def _replace_stuck(self, count: int) -> None:
        """Under the lock: each stuck grant gets another thread in its place, so that it stalls no other query."""
        if self._workers.working:
            self._workers.resize(self._wanted_threads + count)

    def after(self, flow: Flow) -> None:
        """Without the lock, after a grant: removes queries that failed in it and queries that use too much memory."""
        state, limits = self._state, self._query_limits
        if flow.errors:
            state.record.raised()
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
            state.memory.carry_out(spill)
        with self._control.alone():
            exceeded = limits.exceeded(state.wiring, state.outboxes)
            for query, reason in exceeded.items():
                state.fail(query, "", "", f"MemoryError: {reason}")
                for queued in state.outboxes[query].waiting:
                    state.memory.release(queued)
                state.outboxes[query].waiting.clear()
            if exceeded:
                state.rebuild()

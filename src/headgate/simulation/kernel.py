"""The virtual-time executor: runs the grants of a policy over modelled operators.

Shared with the runtime (`runtime/loop.py`): everything that decides. Both executors ask one `Scheduler` (selection,
changes of cut, draining, refresh times), write one `View` (queues, performance), measure into one `Statistics`, and
route rows by one `Routes`. Not shared: everything that executes. Here time is virtual and jumps from event to event, a
row is a tuple of numbers, a grant is one step that ends at a computed moment, and there is no thread, lock or memory
limit. A common loop would pay for both kinds of rows in its hottest lines, so each executor has its own.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from random import Random
from typing import Any

import numpy as np

from headgate.scheduling.cut import Routes, Units
from headgate.scheduling.errors import ModelError, closest
from headgate.scheduling.policy import Policy
from headgate.scheduling.registry import policy as policy_of
from headgate.scheduling.scheduler import Scheduler
from headgate.scheduling.topology import Topology
from headgate.scheduling.view import Foreseen, View
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.execution import Execution, Observer, Outbox
from headgate.simulation.known_statistics import known_statistics, row_sizes
from headgate.simulation.models import Model
from headgate.simulation.recorder import FOLD, Levels, QueryOutput
from headgate.simulation.result import SimulationResult

TUPLES = ("whole", "random", "fractional")

# A running grant: end, unit (−1: a source's own thread), elapsed time, rows in, rows out, the rows it wrote.
Job = tuple[float, int, float, float, float, Outbox]


class Simulation:
    """One run of a policy over a modelled query graph, in virtual time; the same seed gives the same run.

    - `operators`: a model for each operator of the topology; `arrivals`: a process for each stream
    - `policy`: a policy, or its text (`"chain"`, `"cqc:k=1000us"`)
    - `tuples`: "whole" (selectivity by accumulation: every second row passes 0.5), "random" (drawn), or
      "fractional" (a row becomes selectivity rows, as in the papers' worked examples)
    - `processors`: number of grants that run at once; `switch`: seconds added to every grant
    - `statistics`: "known" (the models' true means) or "measured" (as a runtime measures them)
    - `bytes`: size of a row on each stream; `until`: stop there (default: when all work is done)
    - `resolution`: the interval of the queue series; `observer(event, edge, row, time)` sees every "in" and
      "out" of every queue
    - `admitted(operator)`: the part of an arriving row, from 0 to 1, that enters at an operator which reads a stream
      (load shedding); a row that enters without a queue enters whole, or not at all if its part is 0

    A grant is not preempted; its results become visible when it ends, but count in the queues from the
    moment they are made. A row holds its memory until it has passed its unit.
    """

    def __init__(
        self,
        topology: Topology,
        operators: Mapping[str, Model],
        arrivals: Mapping[str, Arrivals],
        policy: str | Policy,
        *,
        tuples: str = "whole",
        processors: int = 1,
        switch: float = 0.0,
        statistics: str = "known",
        half_life: float = 10.0,
        bytes: float | Mapping[str, float] = 100.0,
        until: float = inf,
        resolution: float = 1.0,
        seed: int = 0,
        observer: Observer | None = None,
        admitted: Callable[[int], float] | None = None,
    ) -> None:
        _check(topology, operators, arrivals, tuples, processors, switch, statistics, until, resolution)
        self.topology = topology
        self.seed = seed
        self._models = [operators[name] for name in topology.operators]
        self._arrivals = [arrivals[name] for name in topology.streams]
        self._tuples = tuples
        self.processors = processors
        self._switch = switch
        self._admitted = admitted
        self._until = until
        self._measured = statistics == "measured"
        self._running_models = [
            m.start(Random(f"{seed}/{n}")) for m, n in zip(self._models, topology.operators, strict=True)
        ]
        self._edge_bytes, self._bytes_out = row_sizes(topology, operators, bytes)
        stats = known_statistics(topology, operators, arrivals, self._edge_bytes, self._bytes_out, half_life)
        self.view = View.of(topology, stats)
        self.view.oracle = self
        self._levels = Levels(resolution)
        self._execution = Execution(
            topology,
            self._running_models,
            self.view,
            self._levels,
            sizes=self._edge_bytes,
            made=self._bytes_out,
            tuples=tuples,
            seed=seed,
            observer=observer,
        )
        self.view.delivered = lambda: [output.totals() for output in self._execution.outputs]
        self._accepted = {name: array("d") for name in topology.streams}
        self._now = 0.0
        self._sources: list[Iterator[float]] | None = None
        self._coming: list[tuple[float, int]] = []
        self._jobs: list[tuple[float, int, Job]] = []
        self._started = 0
        self._idle = 0.0
        self._spent = 0.0
        self._processed = [0.0] * len(topology.operators)
        # Rows of streams without a queue, by the component that their sources run; and when the component is free.
        self._unqueued: dict[int, deque[tuple[float, int, int, str]]] = {}
        self._free_at: dict[int, float] = {}
        # Per stream: its name, when its rows were accepted, its queued edges, its direct consumers (operator, port).
        self._streams: list[tuple[str, array[float], tuple[int, ...], tuple[tuple[int, int], ...]]] = []
        self._changes: list[tuple[float, str]] = []
        self.scheduler = Scheduler(policy_of(policy), self.view)
        self._units: Units | None = None
        self._prepare()

    # The loop -----------------------------------------------------------------------------------------

    def run(self) -> SimulationResult:
        """Run to the end and measure."""
        self.advance(self._until)
        return self._result(len(self._jobs))

    def preload(self, operator: str, rows: float, oldest: float, tuples: int) -> None:
        """Lets rows wait for an operator when the run begins, divided evenly into tuples.

        They arrived evenly in the `oldest` seconds before the start, so their times of arrival are negative. If the
        operator has no queue of its own, they wait where its unit takes its rows.
        """
        place, units = self.topology.id(operator), self.scheduler.units
        entries = [edge for edge in self.topology.inputs[place] if units.of_edge[edge] >= 0]
        entries = entries or [edge for unit in units.units if place in unit.operators for edge in unit.entries]
        if not entries or tuples < 1:
            return
        arrivals = [oldest * (number / tuples - 1) for number in range(tuples)]
        waiting = self._execution.begin_with(entries[0], arrivals, rows / tuples)
        self.scheduler.arrived(entries[0], self._execution.put(entries[0], waiting))

    def advance(self, until: float) -> None:
        """Runs everything that happens until then; may be called again with a later time."""
        scheduler, performance, state = self.scheduler, self.view.performance, self.view.queues
        processors, levels, start = self.processors, self._levels, self._start
        execution, finish, arrive = self._execution, self._finish, self._arrive
        if self._sources is None:
            self._sources = [
                a.times(Random(f"{self.seed}/{n}")) for a, n in zip(self._arrivals, self.topology.streams, strict=True)
            ]
            for number, source in enumerate(self._sources):
                if (first := next(source, None)) is not None:
                    self._coming.append((first, number))
            heapify(self._coming)
        sources, coming, running = self._sources, self._coming, self._jobs
        alone = processors == 1
        while True:
            if len(running) < processors:
                if self._now >= scheduler.due:
                    self._refresh()
                job = start()
                if job is not None:
                    end = job[0]
                    if alone and end <= until and (not coming or end < coming[0][0]):
                        # No other event comes before its end, the usual case with one processor: finish it at once.
                        elapsed = end - self._now
                        performance.queued_rows += elapsed * execution.total_rows
                        performance.queued_bytes += elapsed * state.memory
                        self._now = end
                        finish(job)
                        if len(levels.times) > FOLD:
                            levels.fold(end)
                        continue
                    self._started += 1
                    heappush(running, (end, self._started, job))
                    continue
            arrival = coming[0][0] if coming else inf
            ending = running[0][0] if running else inf
            moment = arrival if arrival <= ending else ending
            if moment == inf or moment > until:
                break
            elapsed = moment - self._now
            if elapsed:
                self._idle += elapsed * (processors - len(running))
                performance.queued_rows += elapsed * execution.total_rows
                performance.queued_bytes += elapsed * state.memory
                self._now = moment
            if arrival <= ending:
                # All rows of one moment arrive before the next decision.
                while coming and coming[0][0] <= moment:
                    number = coming[0][1]
                    arrive(number, moment)
                    following = next(sources[number], None)
                    if following is None:
                        heappop(coming)
                    else:
                        heapreplace(coming, (following, number))
            else:
                finish(heappop(running)[2])
            if len(levels.times) > FOLD:
                levels.fold(self._now)

    @property
    def now(self) -> float:
        """The time of the last event."""
        return self._now

    def outputs(self, query: str) -> QueryOutput:
        """The results of a query so far."""
        place = next(n for n, known in enumerate(self.topology.queries) if known.name == query)
        return self._execution.outputs[place]

    def _start(self) -> Job | None:
        """Begin the next grant, or the next row of a stream without a queue."""
        now = self._now
        if self._unqueued:
            for component, rows_of in self._unqueued.items():
                # A source's thread runs its own operators; it waits only for the component itself.
                if rows_of and self._free_at.get(component, 0.0) <= now:
                    return self._run_unqueued(component, rows_of)
        scheduler = self.scheduler
        grant = scheduler.next(now)
        if scheduler.units is not self._units:
            self._prepare()
        if grant is None:
            return None
        unit, rows, seconds = grant
        if not self._unqueued:
            t, taken, made, outbox = self._execution.runners[unit](rows, now + self._switch, now + seconds)
            return t, unit, t - now, taken, made, outbox
        component = scheduler.units.units[unit].component
        begin = max(now, self._free_at.get(component, 0.0))
        t, taken, made, outbox = self._execution.runners[unit](rows, begin + self._switch, begin + seconds)
        self._free_at[component] = t
        return t, unit, t - now, taken, made, outbox

    def _run_unqueued(self, component: int, waiting: deque[tuple[float, int, int, str]]) -> Job:
        _, operator, port, stream = waiting.popleft()
        self._accepted[stream].append(self._now)
        t, taken, made, outbox = self._execution.call(operator, port, self._now)
        self._free_at[component] = t
        return t, -1, t - self._now, taken, made, outbox

    def _finish(self, job: Job) -> None:
        end, unit, elapsed, rows_in, rows_out, outbox = job
        self._spent += elapsed
        scheduler = self.scheduler
        for edge, rows in outbox:
            scheduler.arrived(edge, self._execution.put(edge, rows))
        if unit >= 0:
            scheduler.finished(unit, end, elapsed, rows_in, rows_out)

    def _arrive(self, number: int, moment: float) -> None:
        stream, accepted, queued, direct = self._streams[number]
        if self._admitted is not None:
            queued = self._admit(queued, moment)
            direct = tuple(each for each in direct if self._admitted(each[0]) > 0)
        if queued:
            for edge, rows in self._execution.arrive(queued, moment):
                self.scheduler.arrived(edge, self._execution.put(edge, rows))
            accepted.append(moment)
        for operator, port in direct:
            component = self.scheduler.units.component_of[operator]
            self._unqueued.setdefault(component, deque()).append((moment, operator, port, stream))

    def _admit(self, queued: Sequence[int], moment: float) -> tuple[int, ...]:
        """Enters the parts of a row at the edges that do not get all of it, and returns the other edges."""
        assert self._admitted is not None
        whole: list[int] = []
        for edge in queued:
            part = self._admitted(self.topology.edges[edge].consumer)
            if part >= 1:
                whole.append(edge)
            elif part > 0:
                rows = self._execution.begin_with(edge, (moment,), part)
                self.scheduler.arrived(edge, self._execution.put(edge, rows))
        return tuple(whole)

    def _prepare(self) -> None:
        """Set up the state that depends on the units."""
        units = self._units = self.scheduler.units
        routes = Routes.of(self.topology, units.cut)
        self._execution.prepare(units, routes)
        self._streams = [
            (stream, self._accepted[stream], routes.stream_queued[stream], routes.stream_direct[stream])
            for stream in self.topology.streams
        ]
        waiting = [row for rows in self._unqueued.values() for row in rows]
        self._unqueued.clear()
        for row in sorted(waiting):
            self._unqueued.setdefault(units.component_of[row[1]], deque()).append(row)
        self._changes.append((self._now, str(self.scheduler.policy)))

    def _refresh(self) -> None:
        stats, done = self.view.statistics, self._execution
        for o, rows in enumerate(done.rows_in):
            self._processed[o] += rows
            if self._measured:
                size_in = self._edge_bytes[self.topology.inputs[o][0]]
                made = done.rows_out[o]
                stats.observe(o, rows, made, done.busy[o], rows * size_in, made * self._bytes_out[o])
                stats.arrive(o, max(done.arrived[o], rows))
            done.rows_in[o] = done.rows_out[o] = done.busy[o] = done.arrived[o] = 0.0
        if self._measured:
            stats.update(self._now)
        self.scheduler.refresh(self._now)
        if self.scheduler.units is not self._units:
            self._prepare()

    def waiting(self, edge: int, limit: int) -> Sequence[Foreseen]:
        """The oracle (001 §5): the cost and yield of the rows waiting on an edge."""
        operator = self.topology.edges[edge].consumer
        model = self._running_models[operator]
        leaves = not self.topology.outputs[operator]
        share = self.view.statistics.selectivity[operator]
        out = 0.0 if leaves else share * self._bytes_out[operator]
        queue = self._execution.queues[edge]
        seen: list[Foreseen] = []
        for place in range(min(limit, len(queue))):
            _, rows, drawn, _ = queue[place]
            cost = rows * (drawn if model.seconds is None else model.seconds)
            seen.append(Foreseen(cost, rows * share, rows * (self._edge_bytes[edge] - out)))
        return seen

    def _result(self, running: int) -> SimulationResult:
        end = self._now if self._until == inf else self._until
        self._idle += (end - self._now) * (self.processors - running)
        self._levels.fold(end if self._until < inf else np.nextafter(end, inf))
        processed = [done + rows for done, rows in zip(self._processed, self._execution.rows_in, strict=True)]
        return SimulationResult(
            topology=self.topology,
            end=end,
            busy=self._spent,
            idle=self._idle,
            decisions=self.scheduler.decisions,
            processed=dict(zip(self.topology.operators, processed, strict=True)),
            unprocessed={e: rows for e, rows in enumerate(self.view.queues.rows) if rows},
            outputs=self._execution.outputs,
            accepted={name: np.frombuffer(times) for name, times in self._accepted.items()},
            levels=self._levels,
            changes=self._changes,
        )


def simulate(
    topology: Topology,
    operators: Mapping[str, Model],
    arrivals: Mapping[str, Arrivals],
    policy: str | Policy,
    **options: Any,
) -> SimulationResult:
    """Run a :class:`Simulation` to its end."""
    return Simulation(topology, operators, arrivals, policy, **options).run()


def _check(
    topology: Topology,
    operators: Mapping[str, Model],
    arrivals: Mapping[str, Arrivals],
    tuples: str,
    processors: int,
    switch: float,
    statistics: str,
    until: float,
    resolution: float,
) -> None:
    for given, known, what, subject, thing in (
        (operators, topology.operators, "operator", "a model is", "model"),
        (arrivals, topology.streams, "stream", "arrivals are", "arrivals"),
    ):
        for name in given:
            if name not in known:
                raise ModelError(f"{subject} given for unknown {what} '{name}'; {closest(name, known)}")
        for name in known:
            if name not in given:
                raise ModelError(f"{what} '{name}' has no {thing}; every {what} needs its own")
    if tuples not in TUPLES:
        raise ModelError(f"unknown kind of tuples '{tuples}'; {closest(tuples, TUPLES)}")
    if statistics not in ("known", "measured"):
        raise ModelError(f"unknown statistics '{statistics}'; {closest(statistics, ('known', 'measured'))}")
    if processors < 1:
        raise ModelError(f"{processors} processors cannot run anything; give at least one")
    if switch < 0:
        raise ModelError(f"a switch cost of {switch} s is negative")
    if not until > 0 or not resolution > 0:
        raise ModelError(f"until ({until} s) and resolution ({resolution} s) must be above zero")

"""The virtual-time executor: runs what a policy grants, over modelled operators."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from random import Random
from typing import Any

import numpy as np

from headgate.scheduling.cut import Units
from headgate.scheduling.errors import ModelError, closest
from headgate.scheduling.policy import Grant, Policy
from headgate.scheduling.registry import policy as policy_of
from headgate.scheduling.scheduler import Scheduler
from headgate.scheduling.topology import Topology
from headgate.scheduling.view import Foreseen, View
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.known import known_statistics, row_bytes
from headgate.simulation.operators import Model
from headgate.simulation.recorder import FOLD, Levels, Output
from headgate.simulation.result import Result

TUPLES = ("whole", "random", "fractional")

# A waiting row: when it (or the row it stems from) arrived, how many tuples it is (a fraction, or 1), what it
# will cost per tuple if that is drawn, and the number of readers left of a fork's shared copy.
Row = tuple[float, float, float, list[int] | None]
Outbox = list[tuple[float, int, Row]]
# A piece of work under way: end, unit (−1: a source's own thread), elapsed, rows in, rows out, what it wrote.
Job = tuple[float, int, float, float, float, Outbox]
Observer = Callable[[str, int, Row, float], None]


class Simulation:
    """One run of a policy over a modelled query graph, in virtual time; the same seed gives the same run.

    - `operators`: a model for each operator of the topology; `arrivals`: a process for each stream
    - `policy`: a policy, or its text (`"chain"`, `"cqc:k=1000us"`)
    - `tuples`: "whole" (selectivity by accumulation: every second row passes 0.5), "random" (by chance), or
      "fractional" (a row becomes selectivity rows, as in the papers' worked examples)
    - `processors`: how many grants run at once; `switch`: seconds that every grant costs on top
    - `statistics`: "known" (the models' true means) or "measured" (as a runtime measures them)
    - `bytes`: size of a row on each stream; `until`: stop there (default: when all work is done)
    - `resolution`: the interval of the queue series; `observer(event, edge, row, time)` sees every "in" and
      "out" of every queue

    A grant is not preempted; its results become visible when it ends, but count in the queues from the
    moment they are made. A row holds its memory until it is through its unit.
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
    ) -> None:
        _check(topology, operators, arrivals, tuples, processors, switch, statistics, until, resolution)
        self.topology = topology
        self.seed = seed
        self._models = [operators[name] for name in topology.operators]
        self._arrivals = [arrivals[name] for name in topology.streams]
        self._tuples = tuples
        self._processors = processors
        self._switch = switch
        self._until = until
        self._measured = statistics == "measured"
        self._observer = observer
        self._running_models = [
            m.start(Random(f"{seed}/{n}")) for m, n in zip(self._models, topology.operators, strict=True)
        ]
        self._consumers = [edge.consumer for edge in topology.edges]
        self._ports = [edge.port for edge in topology.edges]
        self._fixed = [self._running_models[o].seconds is not None for o in self._consumers]
        sizes, self._bytes_out = row_bytes(topology, operators, bytes)
        self._edge_bytes = sizes
        stats = known_statistics(topology, operators, arrivals, sizes, self._bytes_out, half_life)
        self.view = View.of(topology, stats)
        self.view.oracle = self
        self._queues: list[deque[Row]] = [deque() for _ in topology.edges]
        self._levels = levels = Levels(resolution)
        self._log_time, self._log_rows = levels.times.append, levels.rows.append
        self._log_bytes = levels.bytes.append
        self._outputs = [Output() for _ in topology.queries]
        self._accepted = {name: array("d") for name in topology.streams}
        self._rows_in = [0.0] * len(topology.operators)
        self._rows_out = [0.0] * len(topology.operators)
        self._busy = [0.0] * len(topology.operators)
        self._came = [0.0] * len(topology.operators)
        self._total_rows = 0.0
        self._now = 0.0
        self._idle = 0.0
        self._spent = 0.0
        self._processed = [0.0] * len(topology.operators)
        self._doors: dict[int, deque[tuple[float, int, int, str]]] = {}
        self._free_at: dict[int, float] = {}
        self._changes: list[tuple[float, str]] = []
        self._direct: list[list[tuple[int, int]]] = [[] for _ in topology.operators]
        self._queued: list[list[int]] = [[] for _ in topology.operators]
        self._outbox: Outbox = []
        self.scheduler = Scheduler(policy_of(policy), self.view)
        self._units: Units | None = None
        self._prepare()
        self._process = self._processor()

    # The loop -----------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Run to the end and measure."""
        scheduler, performance, state = self.scheduler, self.view.performance, self.view.queues
        processors, until, levels, start = self._processors, self._until, self._levels, self._start
        coming: list[tuple[float, int]] = []
        sources = [
            a.times(Random(f"{self.seed}/{n}")) for a, n in zip(self._arrivals, self.topology.streams, strict=True)
        ]
        for number, source in enumerate(sources):
            if (first := next(source, None)) is not None:
                coming.append((first, number))
        heapify(coming)
        running: list[tuple[float, int, Any]] = []
        started = 0
        while True:
            if len(running) < processors:
                if self._now >= scheduler.due:
                    self._refresh()
                job = start()
                if job is not None:
                    started += 1
                    heappush(running, (job[0], started, job))
                    continue
            arrival = coming[0][0] if coming else inf
            ending = running[0][0] if running else inf
            moment = arrival if arrival <= ending else ending
            if moment == inf or moment > until:
                break
            elapsed = moment - self._now
            if elapsed:
                self._idle += elapsed * (processors - len(running))
                performance.queued_rows += elapsed * self._total_rows
                performance.queued_bytes += elapsed * state.held
                self._now = moment
            if arrival <= ending:
                # All rows of one moment are there before the next decision.
                while coming and coming[0][0] <= moment:
                    number = coming[0][1]
                    self._arrive(number, moment)
                    following = next(sources[number], None)
                    if following is None:
                        heappop(coming)
                    else:
                        heapreplace(coming, (following, number))
            else:
                self._finish(heappop(running)[2])
            if len(levels.times) > FOLD:
                levels.fold(self._now)
        return self._result(running)

    def _start(self) -> Job | None:
        """Begin the next piece of work: (end, unit or −1, elapsed, rows in, rows out, results)."""
        if self._doors:
            for component, door in self._doors.items():
                # A source's thread runs its own operators; it waits only for the component itself.
                if door and self._free_at.get(component, 0.0) <= self._now:
                    return self._run_door(component, door)
        grant = self.scheduler.next(self._now)
        if self.scheduler.units is not self._units:
            self._prepare()
        return None if grant is None else self._run_grant(grant)

    def _run_grant(self, grant: Grant) -> Job:
        unit = self.scheduler.units.units[grant.unit]
        start = max(self._now, self._free_at.get(unit.component, 0.0)) if self._doors else self._now
        t = start + self._switch
        deadline = start + grant.seconds
        outbox: Outbox = []
        self._outbox = outbox
        release = self._release
        taken = 0.0
        process, consumers, ports, queues = self._process, self._consumers, self._ports, self._queues
        entries = unit.entries
        single = entries[0] if len(entries) == 1 else None
        left: float = sum([len(queues[e]) for e in entries]) if single is None else len(queues[single])
        if grant.rows < left:
            left = grant.rows
        while left > 0:
            left -= 1
            entry = self._oldest_entry(entries) if single is None else single
            row = queues[entry].popleft()
            t = process(consumers[entry], ports[entry], row[0], row[1], row[2], t)
            taken += row[1]
            release(entry, row, t)
            if t >= deadline:
                break
        if self._doors:
            self._free_at[unit.component] = t
        made = 0.0
        for _, _, out in outbox:
            made += out[1]
        return t, grant.unit, t - self._now, taken, made, outbox

    def _run_door(self, component: int, door: deque[tuple[float, int, int, str]]) -> Job:
        _, operator, port, stream = door.popleft()
        self._accepted[stream].append(self._now)
        outbox: Outbox = []
        self._outbox = outbox
        model = self._running_models[operator]
        drawn = 0.0 if model.seconds is not None else model.draw()
        t = self._process(operator, port, self._now, 1.0, drawn, self._now)
        self._free_at[component] = t
        return t, -1, t - self._now, 1.0, 0.0, outbox

    def _finish(self, job: Job) -> None:
        end, unit, elapsed, rows_in, rows_out, outbox = job
        self._spent += elapsed
        for _, edge, row in outbox:
            self._put(edge, row)
        if unit >= 0:
            self.scheduler.finished(unit, end, elapsed, rows_in, rows_out)

    def _arrive(self, number: int, moment: float) -> None:
        stream = self.topology.streams[number]
        edges = self.topology.stream_edges[stream]
        queued = self.scheduler.units.cut.queued
        readers = [e for e in edges if e in queued]
        shared = [len(readers)] if len(readers) > 1 else None
        for e in readers:
            self._enter(moment, e, moment, 1.0, shared)
            self._put(e, self._outbox.pop()[2])
        if readers:
            self._accepted[stream].append(moment)
        for e in edges:
            if e not in queued:
                edge = self.topology.edges[e]
                component = self.scheduler.units.component_of[edge.consumer]
                self._doors.setdefault(component, deque()).append((moment, edge.consumer, edge.port, stream))

    # Queues -------------------------------------------------------------------------------------------

    def _enter(self, t: float, edge: int, arrival: float, rows: float, shared: list[int] | None) -> None:
        """A row is made for a queued edge: from now on it takes memory."""
        drawn = 0.0 if self._fixed[edge] else self._running_models[self._consumers[edge]].draw()
        row: Row = (arrival, rows, drawn, shared)
        size = rows * self._edge_bytes[edge]
        first = shared is None or edge == self._first_reader(edge)
        self._log_time(t)
        self._log_rows(rows)
        self._log_bytes(size if first else 0.0)
        if first:
            self.view.queues.held += size
        if self._observer is not None:
            self._observer("in", edge, row, t)
        self._outbox.append((t, edge, row))

    def _first_reader(self, edge: int) -> int:
        queued = self.scheduler.units.cut.queued
        return next(e for e in self.topology.siblings(edge) if e in queued)

    def _put(self, edge: int, row: Row) -> None:
        """A row becomes visible in its queue."""
        queue, state = self._queues[edge], self.view.queues
        empty = not queue
        queue.append(row)
        state.rows[edge] += row[1]
        state.bytes[edge] += row[1] * self._edge_bytes[edge]
        self._total_rows += row[1]
        self._came[self._consumers[edge]] += row[1]
        if empty:
            state.oldest[edge] = row[0]
        self.scheduler.arrived(edge, empty)

    def _release(self, edge: int, row: Row, t: float) -> None:
        """A row is through its unit: its memory is free, unless another branch of the fork needs it."""
        queue, state = self._queues[edge], self.view.queues
        rows, shared = row[1], row[3]
        size = rows * self._edge_bytes[edge]
        self._total_rows -= rows
        if queue:
            state.rows[edge] -= rows
            state.bytes[edge] -= size
            state.oldest[edge] = queue[0][0]
        else:
            # Exactly zero: fractions must leave no dust that looks like a waiting row.
            state.rows[edge] = 0.0
            state.bytes[edge] = 0.0
            state.oldest[edge] = inf
        if shared is not None:
            shared[0] -= 1
            if shared[0]:
                size = 0.0
        state.held -= size
        self._log_time(t)
        self._log_rows(-rows)
        self._log_bytes(-size)
        if self._observer is not None:
            self._observer("out", edge, row, t)

    def _oldest_entry(self, entries: Sequence[int]) -> int:
        queues = self._queues
        # Of rows equally old the longest queue's: so the readers of a fork take turns, and its rows are soon free.
        return min([e for e in entries if queues[e]], key=lambda e: (queues[e][0][0], -len(queues[e])))

    # Operators ----------------------------------------------------------------------------------------

    def _processor(self) -> Callable[[int, int, float, float, float, float], float]:
        """The function that takes one row depth first through its unit; a closure, because it is the hot path."""
        models = self._running_models
        seconds = [m.seconds for m in models]
        selectivity = [m.selectivity for m in models]
        results = self.topology.results
        outputs, performance = self._outputs, self.view.performance
        busy, rows_in, rows_out = self._busy, self._rows_in, self._rows_out
        direct, queued, enter = self._direct, self._queued, self._enter
        fractional, accumulate = self._tuples == "fractional", self._tuples == "whole"
        carry = [0.0] * len(models)
        # One source of chance an operator: the same rows pass it whatever the policy.
        chance = [Random(f"{self.seed}/{name}/selectivity").random for name in self.topology.operators]

        def process(operator: int, port: int, arrival: float, rows: float, drawn: float, t: float) -> float:
            fixed = seconds[operator]
            cost = (drawn if fixed is None else fixed) * rows
            share = selectivity[operator]
            if share is None:
                extra, out = models[operator].take(port, arrival, rows)
                cost += extra
            else:
                out = rows * share
            t += cost
            busy[operator] += cost
            rows_in[operator] += rows
            if fractional:
                copies = 1 if out > 0 else 0
            else:
                if accumulate:
                    out += carry[operator]
                    copies = int(out + 1e-9)
                    carry[operator] = out - copies
                else:
                    copies = int(out)
                    copies += chance[operator]() < out - copies
                out = 1.0
            if not copies:
                return t
            made = out * copies
            rows_out[operator] += made
            for query in results[operator]:
                output = outputs[query]
                output.time.append(t)
                output.latency.append(t - arrival)
                output.rows.append(made)
                performance.results += made
                performance.delay += made * (t - arrival)
            readers = queued[operator]
            for _ in range(copies):
                if readers:
                    shared = [len(readers)] if len(readers) > 1 else None
                    for edge in readers:
                        enter(t, edge, arrival, out, shared)
                for consumer, side in direct[operator]:
                    cost_of = models[consumer]
                    own = 0.0 if cost_of.seconds is not None else cost_of.draw()
                    t = process(consumer, side, arrival, out, own, t)
            return t

        return process

    def _prepare(self) -> None:
        """Get ready for new units: which edges each operator calls directly, which it writes to a queue."""
        units = self._units = self.scheduler.units
        edges = self.topology.edges
        place = {e: i for i, e in enumerate(units.cut.order)}
        for operator, declared in enumerate(self.topology.outputs):
            outs = sorted(declared, key=lambda e: place.get(e, e)) if place else declared
            self._direct[operator][:] = [(edges[e].consumer, edges[e].port) for e in outs if e not in units.cut.queued]
            self._queued[operator][:] = [e for e in outs if e in units.cut.queued]
        waiting = [entry for door in self._doors.values() for entry in door]
        self._doors.clear()
        for entry in sorted(waiting):
            self._doors.setdefault(units.component_of[entry[1]], deque()).append(entry)
        self._changes.append((self._now, str(self.scheduler.policy)))

    def _refresh(self) -> None:
        stats = self.view.statistics
        for o, rows in enumerate(self._rows_in):
            self._processed[o] += rows
            if self._measured:
                size_in = self._edge_bytes[self.topology.inputs[o][0]]
                made = self._rows_out[o]
                stats.observe(o, rows, made, self._busy[o], rows * size_in, made * self._bytes_out[o])
                stats.arrive(o, max(self._came[o], rows))
            self._rows_in[o] = self._rows_out[o] = self._busy[o] = self._came[o] = 0.0
        if self._measured:
            stats.settle(self._now)
        self.scheduler.refresh(self._now)
        if self.scheduler.units is not self._units:
            self._prepare()

    def waiting(self, edge: int, limit: int) -> Sequence[Foreseen]:
        """The oracle (001 §5): what the rows that wait on an edge will cost and yield."""
        operator = self.topology.edges[edge].consumer
        model = self._running_models[operator]
        leaves = not self.topology.outputs[operator]
        share = self.view.statistics.selectivity[operator]
        out = 0.0 if leaves else share * self._bytes_out[operator]
        queue = self._queues[edge]
        seen: list[Foreseen] = []
        for place in range(min(limit, len(queue))):
            _, rows, drawn, _ = queue[place]
            cost = rows * (drawn if model.seconds is None else model.seconds)
            seen.append(Foreseen(cost, rows * share, rows * (self._edge_bytes[edge] - out)))
        return seen

    def _result(self, running: Sequence[Any]) -> Result:
        end = self._now if self._until == inf else self._until
        self._idle += (end - self._now) * (self._processors - len(running))
        self._levels.fold(end if self._until < inf else np.nextafter(end, inf))
        processed = [done + rows for done, rows in zip(self._processed, self._rows_in, strict=True)]
        return Result(
            topology=self.topology,
            end=end,
            busy=self._spent,
            idle=self._idle,
            decisions=self.scheduler.decisions,
            processed=dict(zip(self.topology.operators, processed, strict=True)),
            waiting={e: rows for e, rows in enumerate(self.view.queues.rows) if rows},
            outputs=self._outputs,
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
) -> Result:
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

"""The grant loop: the scheduler grants a unit, the unit takes a train from its queues, its results go to other queues.

One grant, in the order of the methods below: `begin` asks the scheduler and takes a train, `_pass` takes the train
through the unit's operators (`dataflow.Flow`), `deliver` puts the results into queues and outboxes, `_next` takes the
grant's next train or ends the grant and begins another.

Shared with the simulator (`simulation/kernel.py`): the `Scheduler` with its policy, cut and units, the `View` that both
executors write, the `Statistics`, and the `Routes` of rows. Not shared: this loop, which moves Arrow batches on real
threads by a real clock, sizes trains by measured time, and counts and limits memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import nsmallest
from math import inf

from headgate.operators.batch import Batch
from headgate.operators.columns import part_of
from headgate.runtime.dataflow import Flow, Wiring
from headgate.runtime.flight import UNIT, FlightRecord, mark_of
from headgate.runtime.live_unit import LiveUnit, UnitEntry
from headgate.runtime.measurement import Measurement
from headgate.runtime.memory import Memory
from headgate.runtime.outbox import Outbox
from headgate.runtime.pausing import Held
from headgate.runtime.queue import Piece, QueuedBatch, QueuedWatermark
from headgate.runtime.shedding import Shedding
from headgate.runtime.threads import ThreadControl
from headgate.runtime.train_size import SHORT_TRAIN
from headgate.scheduling import Routes, Scheduler, View


class Loop:
    """Runs the grants of a scheduler over one wiring. Any number of threads may call `drive`, each with its own flow.

    The network's lock (`control.lock`) guards the queues, the view, the scheduler, the memory and the measurement;
    operators run, and spilled batches are read and written, without it. `drive` and `step` are called without the lock
    and take it once a train; all other public methods are called under it. The scheduler never grants two units that
    share an operator at once, so each operator is used by one thread at a time.

    No grant exceeds `longest` seconds by more than one batch.
    """

    def __init__(
        self,
        wiring: Wiring,
        scheduler: Scheduler,
        memory: Memory,
        control: ThreadControl,
        clock: Callable[[], float],
        longest: float,
        record: FlightRecord,
        held: Held | None = None,
        shedding: Shedding | None = None,
    ) -> None:
        self.wiring = wiring
        self.held = held or Held()
        self.shedding = shedding or Shedding()
        self._held_edges = self.held.edges
        self.scheduler = scheduler
        self.view: View = scheduler.view
        self.measurement = Measurement(wiring, scheduler, memory, clock)
        self.units: list[LiveUnit] = []
        self._earlier = (0, 0.0)
        self._memory = memory
        self._control = control
        self._lock = control.lock
        self._clock = clock
        self._longest = longest
        self._record = record
        self._prepared: object = None
        self._routes: Routes
        self._measure_at = clock()
        topology = wiring.topology
        self._class_edges: list[list[int]] = [[] for _ in topology.classes]
        for edge in topology.edges:
            self._class_edges[topology.operator_class[edge.consumer]].append(edge.id)
        self._waiting = 0.0
        state = self._state = self.view.queues
        for number, queue in enumerate(wiring.queues):
            if number in self.held.edges:
                continue
            state.rows[number], state.oldest[number] = queue.waiting, queue.oldest
            state.bytes[number] = sum(item.queued.size for item in queue if isinstance(item, Piece))
            self._waiting += queue.waiting

    # One grant ------------------------------------------------------------------------------------------

    def step(self, flow: Flow) -> bool:
        """Without the lock: runs one grant; False if no unit is ready, or the network is paused."""
        with self._lock:
            unit = None if self._control.paused else self.begin(flow, inf)
        if unit is None:
            return False
        self.drive(unit, flow, inf, _once)
        return True

    def begin(self, flow: Flow, until: float) -> LiveUnit | None:
        """Asks the scheduler for a grant and takes its first train; None if no unit is ready."""
        unit = self._begin(flow, until, self._clock())
        if unit is not None:
            self._control.running[id(flow)] = flow
        return unit

    def drive(self, unit: LiveUnit, flow: Flow, until: float, may_continue: Callable[[], bool]) -> None:
        """Without the lock: runs a grant that was begun, and further ones while there are any and `may_continue()`."""
        lock, memory, slot = self._lock, self._memory, self._record.slot()
        following: LiveUnit | None = unit
        try:
            while following is not None:
                unit = following
                slot[UNIT] = unit.entry.mark
                self._pass(unit, flow)
                with lock:
                    self.deliver(flow, unit.since, unit.last)
                    above = memory.bytes > memory.limit
                    if not above:
                        following = self._next(unit, flow, until, may_continue)
                if above:
                    memory.spill()
                    with lock:
                        following = self._next(unit, flow, until, may_continue)
        finally:
            slot[UNIT] = 0

    def _begin(self, flow: Flow, until: float, now: float) -> LiveUnit | None:
        """As `begin`, for a flow that is registered as running already."""
        scheduler = self.scheduler
        if now >= self._measure_at:
            self._measure_at = self.measurement.account(now, self._waiting)
        grant = scheduler.next(now)
        if scheduler.units is not self._prepared:
            self.prepare()
        if grant is None:
            return None
        number, rows, seconds = grant
        unit = self.units[number]
        flow.unit = number
        flow.since = unit.began = now
        deadline = now + (seconds if seconds < self._longest else self._longest)
        unit.deadline = deadline if deadline < until else until
        waiting = unit.entry.queue.rows
        if len(unit.entries) > 1:
            waiting = sum([entry.queue.rows for entry in unit.entries])
        unit.left = rows if rows < waiting else waiting
        unit.taken = 0
        self._take_train(unit, now)
        if self._control.asleep and self._waiting:
            # There may be more to do: each thread that gets work wakes one more.
            self._control.work.notify()
        return unit

    def _take_train(self, unit: LiveUnit, now: float) -> None:
        """Takes the next train from the unit's queues, the oldest first: no row overtakes one of another queue."""
        until = inf
        if len(unit.entries) > 1:
            first, second = nsmallest(2, unit.entries, key=_age)
            unit.entry, until = first, second.queue.oldest
        entry, rows, size = unit.entry, unit.left, unit.train_size
        if rows > size.minimum:
            rows = min(rows, size.within(min(unit.deadline - now, size.prompt)))
        queue, edge, state = entry.queue, entry.edge, self._state
        unit.train = queue.take(rows, until)
        unit.train_began = now
        before, left = state.rows[edge], queue.rows + queue.watermarks
        self._waiting -= before - left
        state.rows[edge] = left
        if left:
            state.bytes[edge] *= left / before
            state.oldest[edge] = queue.oldest
        else:
            state.bytes[edge] = 0.0
            state.oldest[edge] = inf

    def _pass(self, unit: LiveUnit, flow: Flow) -> None:
        """Without the lock: takes a train through the unit. The results of all batches but the last are delivered."""
        stage, port = unit.entry.stage, unit.entry.port
        since = 0.0
        rows = 0
        done: Piece | None = None
        for item in unit.train:
            if isinstance(item, QueuedWatermark):
                since = item.since
                flow.run(stage, port, item.time, 0)
                continue
            if done is not None:
                with self._lock:
                    self.deliver(flow, since, done)
                if self._memory.bytes > self._memory.limit:
                    self._memory.spill()
            queued, size = item.queued, item.stop - item.start
            done, since = item, queued.arrival.first
            batch = queued.batch
            if size != queued.count or batch is None:
                batch = self._memory.load(queued)
                if size != queued.count:
                    batch = Batch(batch.rows.slice(item.start, size), part_of(queued.arrival, size), queued.watermark)
            flow.run(stage, port, batch, size)
            rows += size
        unit.last, unit.since, unit.passed = done, since, rows

    def deliver(self, flow: Flow, since: float, done: Piece | None = None) -> None:
        """Puts the results of a pass into queues and outboxes; `done` is the piece that has passed the unit.

        Above the memory limit, the caller calls `Memory.spill` once it has released the lock.
        """
        memory = self._memory
        if done is not None:
            queued = done.queued
            queued.pins -= 1
            if done.stop == queued.count:
                memory.release(queued)
            if queued.readers:
                memory.count_computed(queued)
        for stage, item, edges, outboxes in flow.emitted:
            if isinstance(item, Batch):
                queued = memory.add(item, len(edges) + len(outboxes), stage.cls, stage.tracked)
                for edge in edges:
                    self._put(edge, queued)
                if outboxes:
                    self._publish(queued, outboxes)
            else:
                self._put_watermark(edges, item, since)
        flow.emitted.clear()

    def _next(self, unit: LiveUnit, flow: Flow, until: float, may_continue: Callable[[], bool]) -> LiveUnit | None:
        """A train has passed: takes the grant's next train, or ends the grant and begins another, if any."""
        now = self._clock()
        rows = unit.passed
        if rows:
            unit.taken += rows
            unit.left -= rows
            seconds, size = now - unit.train_began, unit.train_size
            # Short trains are frequent: one in four is enough to learn from.
            if seconds > SHORT_TRAIN or rows > size.minimum or not unit.grants & 3:
                size.learn(rows, seconds)
        if unit.left > 0 and now < unit.deadline and not flow.over():
            self._take_train(unit, now)
            if unit.train:
                return unit
        elapsed = now - unit.began
        unit.grants += 1
        unit.rows += unit.taken
        unit.seconds += elapsed
        if elapsed > unit.slowest:
            unit.slowest = elapsed
        self.scheduler.finished(unit.id, now, elapsed, unit.taken, flow.rows_out)
        flow.rows_out = 0
        following = None
        if not (flow.errors or self._control.paused) and may_continue():
            following = self._begin(flow, until, now)
        if following is None:
            self._control.leave(flow)
        return following

    # Rows into queues -----------------------------------------------------------------------------------

    def enter(self, stream: str, item: Batch | int, since: float, flow: Flow) -> None:
        """Puts rows or a watermark of a stream into the queues of its edges; edges without a queue are run at once.

        These are run by the thread that brings the rows (000 §2.4), while no grant runs (see `unqueued_sources`).
        """
        self.prepare()
        queued = self._routes.stream_queued.get(stream, ())
        rows = 0
        if isinstance(item, Batch):
            rows = item.rows.num_rows
            self.measurement.note_width(stream, item.rows.nbytes / rows)
            if stream in self.shedding.leaves:
                self._enter_parts(stream, item, queued, flow)
                self.deliver(flow, since)
                return
            if queued:
                self._enqueue(item, queued)
        else:
            self._put_watermark(queued, item, since)
        direct = self._routes.stream_direct.get(stream, ())
        slot = self._record.slot() if direct else None
        for operator, port in direct:
            assert slot is not None
            stage = self.wiring.stages[operator]
            slot[UNIT] = mark_of(stage.key)
            flow.run(stage, port, item, rows)
            slot[UNIT] = 0
        self.deliver(flow, since)

    def _enqueue(self, batch: Batch, edges: Sequence[int]) -> None:
        """Puts one copy of a batch into the queues of several edges."""
        topology = self.wiring.topology
        highest = min([topology.operator_class[topology.edges[e].consumer] for e in edges])
        queued = self._memory.add(batch, len(edges), highest, True)
        for edge in edges:
            self._put(edge, queued)

    def _enter_parts(self, stream: str, batch: Batch, queued: Sequence[int], flow: Flow) -> None:
        """Enters rows of a stream with load shedding: some operators get only a part of them (see `shedding.py`)."""
        consumer = [edge.consumer for edge in self.wiring.topology.edges]
        direct = self._routes.stream_direct.get(stream, ())
        parts = list(self.shedding.kept(stream, batch))
        shed = frozenset().union(*(operators for operators, _ in parts))
        whole = frozenset(consumer[e] for e in queued) | {operator for operator, _ in direct}
        for operators, part in ((whole - shed, batch), *parts):
            if not part.rows.num_rows:
                continue
            edges = [e for e in queued if consumer[e] in operators]
            if edges:
                self._enqueue(part, edges)
            for operator, port in direct:
                if operator in operators:
                    stage, slot = self.wiring.stages[operator], self._record.slot()
                    slot[UNIT] = mark_of(stage.key)
                    flow.run(stage, port, part, part.rows.num_rows)
                    slot[UNIT] = 0

    def _put(self, edge: int, queued: QueuedBatch) -> None:
        if edge in self._held_edges:
            self._hold(edge, queued)
            return
        state, count = self._state, queued.count
        self.wiring.queues[edge].put(queued)
        self._waiting += count
        before = state.rows[edge]
        state.rows[edge] = before + count
        state.bytes[edge] += queued.size
        if before:
            if self.scheduler.watches_growth:
                self.scheduler.arrived(edge, False)
            return
        state.oldest[edge] = queued.arrival.first
        self.scheduler.arrived(edge, True)
        if self._control.asleep:
            self._control.work.notify()

    def _hold(self, edge: int, queued: QueuedBatch) -> None:
        """Keeps or drops a batch for paused queries."""
        losers = self.held.dropping.get(edge)
        if losers is None:
            self.wiring.queues[edge].put(queued)
            return
        self._memory.release(queued)
        for query in losers:
            self.wiring.outboxes[query].dropped += queued.count

    def _put_watermark(self, edges: Sequence[int], time: int, since: float) -> None:
        watermark = QueuedWatermark(time, since)
        for edge in edges:
            queue = self.wiring.queues[edge]
            if edge in self._held_edges:
                queue.put_watermark(watermark, merge=True)
                continue
            empty = not queue
            if queue.put_watermark(watermark):
                self._waiting += 1
                self._state.rows[edge] += 1
                if empty:
                    self._state.oldest[edge] = since
                if empty or self.scheduler.watches_growth:
                    self.scheduler.arrived(edge, empty)
                if empty and self._control.asleep:
                    self._control.work.notify()

    def _publish(self, queued: QueuedBatch, outboxes: Sequence[Outbox]) -> None:
        now, performance, arrival = self._clock(), self.view.performance, queued.arrival
        for outbox in outboxes:
            if outbox.query.pause == "drop":
                outbox.dropped += queued.count
                self._memory.release(queued)
                continue
            outbox.put(queued, now)
            performance.results += queued.count
            performance.delay += now * arrival.count - arrival.total

    # State ------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Sets up units and routes if the scheduler's units are new. They only change while no grant runs."""
        if self.scheduler.units is self._prepared:
            return
        self._earlier = (self.grants, self.seconds)
        units = self._prepared = self.scheduler.units
        self._routes = Routes.of(self.view.topology, units.cut)
        self.wiring.link(self._routes)
        self.measurement.time_every_pass()
        stages, queues, edges = self.wiring.stages, self.wiring.queues, self.view.topology.edges
        cost = self.view.statistics.cost
        self.units = [
            LiveUnit(
                unit.id,
                [UnitEntry(e, queues[e], stages[edges[e].consumer], edges[e].port) for e in unit.entries],
                len(unit.operators),
                sum(cost[o] for o in unit.operators),
            )
            for unit in units.units
        ]

    @property
    def unqueued_sources(self) -> bool:
        """Whether some stream has an edge without a queue."""
        self.prepare()
        return any(self._routes.stream_direct.values())

    def waits_for(self, cls: int) -> bool:
        """Whether anything waits for a class, by its place in `Topology.classes`, or for a higher one."""
        rows = self._state.rows
        return any(rows[edge] for edges in self._class_edges[: cls + 1] for edge in edges)

    def waits_on(self, edges: Iterable[int]) -> bool:
        """Whether anything waits on one of these edges."""
        rows = self._state.rows
        return any(rows[edge] for edge in edges)

    def edges_to(self, queries: Collection[str]) -> list[int]:
        """The edges to the operators of some queries."""
        topology = self.view.topology
        wanted = {number for number, query in enumerate(topology.queries) if query.name in queries}
        return [edge.id for edge in topology.edges if not wanted.isdisjoint(topology.serves[edge.consumer])]

    def highest_class(self, streams: Iterable[str]) -> int:
        """The place in `Topology.classes` of the highest class that reads one of these streams; the last if none does.

        An operator is of the highest class that it serves, and so are the first operators behind a stream.
        """
        topology = self.view.topology
        of, edges = topology.operator_class, topology.edges
        first = (of[edges[e].consumer] for stream in streams for e in topology.stream_edges.get(stream, ()))
        return min(first, default=len(topology.classes) - 1)

    @property
    def grants(self) -> int:
        """The number of grants so far."""
        return self._earlier[0] + sum([unit.grants for unit in self.units])

    @property
    def seconds(self) -> float:
        """The total time of all grants so far."""
        return self._earlier[1] + sum([unit.seconds for unit in self.units])


def _age(entry: UnitEntry) -> float:
    return entry.queue.oldest


def _once() -> bool:
    return False

"""The grant loop: the scheduler grants a unit, the unit takes a train from its queues, its results go to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nsmallest
from math import inf
from typing import NamedTuple

from headgate.operators.batch import Batch
from headgate.operators.columns import part_of
from headgate.runtime.flow import Flow
from headgate.runtime.gate import Gate
from headgate.runtime.held import Held
from headgate.runtime.limits import Limits
from headgate.runtime.memory import Memory
from headgate.runtime.outbox import Outbox
from headgate.runtime.pace import SHORT, Pace
from headgate.runtime.queue import EdgeQueue, Piece, Watermark
from headgate.runtime.stage import Stage
from headgate.runtime.wiring import Wiring
from headgate.scheduling import Scheduler, View

REFRESHING = 0.005
"""The share of the time that statistics may take: with many operators they are made, and looked at, less often."""

OFTEN = 0.001
"""How often (s) what waits is added up, and the policy is asked whether it is due."""

SETTLED = 1.0
"""How often (s) statistics are made at least, for those who want to see them, if the policy does not."""

MANY, RARELY = 14, 7
"""Where so many batches have come since the statistics were last made, one in so few of the next is timed."""


class Counted(NamedTuple):
    """The counters of an operator at a moment; `came` are the rows that are in it or wait."""

    rows_in: int
    rows_out: int
    seconds: float
    timed: int
    watermark_seconds: float
    came: int
    runs: int


_NOTHING = Counted(0, 0, 0.0, 0, 0.0, 0, 0)


class Entry:
    """A queue that a unit reads, and where its rows go in."""

    __slots__ = ("edge", "port", "queue", "stage")

    def __init__(self, edge: int, queue: EdgeQueue, stage: Stage, port: int) -> None:
        self.edge = edge
        self.queue = queue
        self.stage = stage
        self.port = port


class LiveUnit:
    """A unit at work: its entries, what its grants have cost, and the grant that it has now.

    A unit has one grant at a time. Of that one: `left` are the rows that waited when it began, if the policy allows so
    many (rows that come meanwhile wait); then the train that it took, how far that is, and when (`now`) it took it or
    was through with its last.
    """

    __slots__ = (
        "began",
        "deadline",
        "entries",
        "entry",
        "grants",
        "id",
        "last",
        "left",
        "now",
        "pace",
        "passed",
        "rows",
        "seconds",
        "since",
        "slowest",
        "taken",
        "train",
    )

    def __init__(self, id: int, entries: Sequence[Entry], operators: int) -> None:
        self.id = id
        self.entries = tuple(entries)
        self.pace = Pace(operators)
        self.grants = 0
        self.rows = 0
        self.seconds = 0.0
        self.slowest = 0.0
        self.entry = self.entries[0]
        self.began = self.deadline = self.now = self.left = self.since = 0.0
        self.train: Sequence[Piece | Watermark] = ()
        self.last: Piece | None = None
        self.passed = 0
        self.taken = 0


class Loop:
    """Runs what a scheduler grants over one wiring. Any number of threads may call `turn`, each with its own flow.

    The gate's lock guards the queues, the view, the scheduler and the memory; operators run without it. The scheduler
    never grants two units that share an operator at once, so each operator is used by one thread at a time.
    """

    def __init__(
        self,
        wiring: Wiring,
        scheduler: Scheduler,
        memory: Memory,
        gate: Gate,
        clock: Callable[[], float],
        limits: Limits,
    ) -> None:
        self.wiring = wiring
        self.scheduler = scheduler
        self.view: View = scheduler.view
        self.units: list[LiveUnit] = []
        self._before = (0, 0.0)
        self._memory = memory
        self._gate = gate
        self._lock = gate.lock
        self._clock = clock
        self._longest = limits.grant
        self._linked: object = None
        self._doors: tuple[object, bool] = (None, False)
        self._counted = [self._counters(stage, 0) for stage in wiring.stages]
        self.stream_width: dict[int, float] = {}
        self._waiting = 0.0
        self._seen = self._look = self._settled = clock()
        of = wiring.topology.operator_class
        self._highest = [edge.id for edge in wiring.topology.edges if not of[edge.consumer]]
        state = self._state = self.view.queues
        for edge, queue in enumerate(wiring.queues):
            state.rows[edge], state.oldest[edge] = queue.waiting, queue.oldest
            state.bytes[edge] = sum(item.held.size for item in queue if isinstance(item, Piece))
            self._waiting += queue.waiting

    # Rows in and out of queues: under the lock ----------------------------------------------------------

    def enter(self, stream: str, item: Batch | int, since: float, flow: Flow) -> None:
        """Takes rows or a watermark of a stream: into the queues of its edges, and at once through edges without one.

        A stream's edge without a queue is run by the thread that brings the rows (000 §2.4), while nothing else runs.
        """
        topology, stages = self.view.topology, self.wiring.stages
        edges = topology.stream_edges.get(stream, ())
        queued = [e for e in edges if e in self.scheduler.units.cut.queued]
        rows = item.rows.num_rows if isinstance(item, Batch) else 0
        if isinstance(item, Batch):
            width = item.rows.get_total_buffer_size() / rows
            for e in edges:
                self.stream_width[topology.edges[e].consumer] = width
        if queued and isinstance(item, Batch):
            self.feed(queued, item, min([topology.operator_class[topology.edges[e].consumer] for e in queued]))
        elif queued and isinstance(item, int):
            self.feed_watermark(queued, item, since)
        for e in edges:
            if e not in queued:
                flow.run(stages[topology.edges[e].consumer], topology.edges[e].port, item, rows)
        self.deliver(flow, since)

    @property
    def grants(self) -> int:
        """All grants so far."""
        return self._before[0] + sum([unit.grants for unit in self.units])

    @property
    def seconds(self) -> float:
        """The time of all grants so far."""
        return self._before[1] + sum([unit.seconds for unit in self.units])

    @property
    def urgent(self) -> bool:
        """Whether anything waits for the highest class."""
        rows = self.view.queues.rows
        return any(rows[edge] for edge in self._highest)

    @property
    def doors(self) -> bool:
        """Whether some stream has an edge without a queue."""
        units = self.scheduler.units
        if self._doors[0] is not units:
            edges = [e for ids in self.view.topology.stream_edges.values() for e in ids]
            self._doors = (units, not units.cut.queued.issuperset(edges))
        return self._doors[1]

    def feed(self, edges: Sequence[int], batch: Batch, cls: int) -> None:
        """Puts a batch into the queues of a fork, as one held copy."""
        held = self._memory.hold(batch, len(edges), cls, True)
        for edge in edges:
            self._put(edge, held)

    def feed_watermark(self, edges: Sequence[int], watermark: int, since: float) -> None:
        """Puts a watermark behind what waits on each of the edges."""
        item = Watermark(watermark, since)
        for edge in edges:
            queue = self.wiring.queues[edge]
            empty = not queue
            if queue.put_watermark(item):
                self._waiting += 1
                self.view.queues.rows[edge] += 1
                if empty:
                    self.view.queues.oldest[edge] = since
                if empty or self.scheduler.watches_growth:
                    self.scheduler.arrived(edge, empty)
                if empty and self._gate.asleep:
                    self._gate.work.notify()

    def _put(self, edge: int, held: Held) -> None:
        state, count = self._state, held.count
        self.wiring.queues[edge].put(held)
        self._waiting += count
        before = state.rows[edge]
        state.rows[edge] = before + count
        state.bytes[edge] += held.size
        if before:
            if self.scheduler.watches_growth:
                self.scheduler.arrived(edge, False)
            return
        state.oldest[edge] = held.arrival.first
        self.scheduler.arrived(edge, True)
        if self._gate.asleep:
            self._gate.work.notify()

    def deliver(self, flow: Flow, since: float) -> None:
        """Puts what left a unit into queues and outboxes."""
        memory = self._memory
        for stage, item, edges, outboxes in flow.emitted:
            if isinstance(item, Batch):
                held = memory.hold(item, len(edges) + len(outboxes), stage.cls, stage.tracked)
                for edge in edges:
                    self._put(edge, held)
                if outboxes:
                    self._publish(held, outboxes)
            else:
                self.feed_watermark(edges, item, since)
        flow.emitted.clear()
        if memory.bytes > memory.limit:
            memory.relieve()

    def _publish(self, held: Held, outboxes: Sequence[Outbox]) -> None:
        now, performance, arrival = self._clock(), self.view.performance, held.arrival
        for outbox in outboxes:
            outbox.put(held, now)
            performance.results += held.count
            performance.delay += now * arrival.count - arrival.total

    # The loop -------------------------------------------------------------------------------------------

    def turn(self, flow: Flow, until: float = inf) -> bool:
        """Runs one grant; False if nothing is ready, or all must wait. Called without the lock."""
        with self._lock:
            unit = None if self._gate.paused else self.begin(flow, until)
        if unit is None:
            return False
        self.drive(unit, flow, until, _once)
        return True

    def begin(self, flow: Flow, until: float) -> LiveUnit | None:
        """Under the lock: asks the scheduler for a grant and takes its first train; None if nothing is ready."""
        unit = self._begin(flow, until, self._clock())
        if unit is not None:
            self._gate.running[id(flow)] = flow
        return unit

    def _begin(self, flow: Flow, until: float, now: float) -> LiveUnit | None:
        scheduler = self.scheduler
        if now >= self._look:
            self._account(now)
        grant = scheduler.next(now)
        if scheduler.units is not self._linked:
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
        if self._gate.asleep and self._waiting:
            # There may be more to do: each who gets work wakes one more.
            self._gate.work.notify()
        return unit

    def drive(self, unit: LiveUnit, flow: Flow, until: float, may: Callable[[], bool]) -> None:
        """Runs a grant that was begun, and others after it while there are any and `may` says so.

        Called without the lock, which is taken once a train: to deliver, to decide and to take the next.
        """
        gate, lock = self._gate, self._lock
        while True:
            self._pass(unit, flow)
            with lock:
                if self._goes_on(unit, flow):
                    continue
                ends = flow.errors or gate.paused or not may()
                following = None if ends else self._begin(flow, until, unit.now)
                if following is None:
                    gate.leave(id(flow))
                    return
                unit = following

    def _take_train(self, unit: LiveUnit, now: float) -> None:
        """Takes the next train from the unit's queues, the oldest first: no row overtakes one of another queue."""
        until = inf
        if len(unit.entries) > 1:
            first, second = nsmallest(2, unit.entries, key=_age)
            unit.entry, until = first, second.queue.oldest
        entry, rows, pace = unit.entry, unit.left, unit.pace
        if rows > pace.small:
            rows = min(rows, pace.train(unit.deadline - now))
        queue, edge, state = entry.queue, entry.edge, self._state
        unit.train = queue.take(rows, until)
        unit.now = now
        had, left = state.rows[edge], queue.rows + queue.watermarks
        self._waiting -= had - left
        state.rows[edge] = left
        if left:
            state.bytes[edge] *= left / had
            state.oldest[edge] = queue.oldest
        else:
            state.bytes[edge] = 0.0
            state.oldest[edge] = inf

    def _goes_on(self, unit: LiveUnit, flow: Flow) -> bool:
        """Under the lock: a train is through. Takes the next one of the grant, or ends the grant."""
        self._through(unit.last, flow, unit.since)
        now = self._clock()
        rows = unit.passed
        if rows:
            unit.taken += rows
            unit.left -= rows
            seconds, pace = now - unit.now, unit.pace
            # Of trains that are short anyway it is enough to learn from a few.
            if seconds > SHORT or rows > pace.small or not unit.grants & 3:
                pace.learn(rows, seconds)
        if unit.left > 0 and now < unit.deadline:
            self._take_train(unit, now)
            if unit.train:
                return True
        self._finish(unit, flow, now)
        return False

    def _pass(self, unit: LiveUnit, flow: Flow) -> None:
        """Takes a train through the unit; what comes out of each batch but the last is delivered on the way."""
        stage, port = unit.entry.stage, unit.entry.port
        since = 0.0
        rows = 0
        done: Piece | None = None
        for item in unit.train:
            if isinstance(item, Watermark):
                since = item.since
                flow.run(stage, port, item.time, 0)
                continue
            if done is not None:
                with self._lock:
                    self._through(done, flow, since)
            done, since = item, item.held.arrival.first
            held, size = item.held, item.stop - item.start
            batch = held.batch
            if size != held.count or batch is None:
                batch = self._batch(item, size)
            flow.run(stage, port, batch, size)
            rows += size
        unit.last, unit.since, unit.passed = done, since, rows

    def _batch(self, piece: Piece, size: int) -> Batch:
        """The rows of a piece, brought back if they were spilled."""
        held = piece.held
        with self._lock:
            batch = self._memory.batch(held)
        if size == held.count:
            return batch
        return Batch(batch.rows.slice(piece.start, size), part_of(held.arrival, size), held.watermark)

    def _through(self, piece: Piece | None, flow: Flow, since: float) -> None:
        """Under the lock: a batch is through the unit. What came out is delivered, and it is let go."""
        if piece is not None:
            held = piece.held
            held.pins -= 1
            if piece.stop == held.count:
                self._memory.release(held)
            if held.readers:
                self._memory.grown(held)
        self.deliver(flow, since)

    def _finish(self, unit: LiveUnit, flow: Flow, now: float) -> None:
        elapsed = now - unit.began
        unit.now = now
        unit.grants += 1
        unit.rows += unit.taken
        unit.seconds += elapsed
        if elapsed > unit.slowest:
            unit.slowest = elapsed
        self.scheduler.finished(unit.id, now, elapsed, unit.taken, flow.rows_out)
        flow.rows_out = 0

    # Changes: under the lock ------------------------------------------------------------------------------

    def _account(self, now: float) -> None:
        """Adds up what waited, for those who learn from it, and lets the policy look when it is due."""
        elapsed = now - self._seen
        self._seen = now
        self._look = now + OFTEN
        performance, held = self.view.performance, self._memory.bytes
        self._state.held = held
        performance.queued_rows += elapsed * self._waiting
        performance.queued_bytes += elapsed * held
        due = now >= self.scheduler.due
        if due or now >= self._settled + SETTLED:
            self._refresh(now, due)

    def _refresh(self, now: float, due: bool) -> None:
        """Settles the statistics and lets the policy look at them: not so often that it takes more than its share."""
        self.settle(now)
        if due:
            self.scheduler.refresh(now)
        rest = (self._clock() - now) / REFRESHING
        self.scheduler.due = max(self.scheduler.due, now + rest)
        self._settled = now + max(rest - SETTLED, 0.0)

    def settle(self, now: float) -> None:
        """Makes the statistics current from what the operators have counted since the last time."""
        statistics, topology = self.view.statistics, self.view.topology
        widths = [stage.width for stage in self.wiring.stages]
        for stage in self.wiring.stages:
            before = self._counted[stage.id]
            counted = self._counters(stage, before.came)
            if counted == before:
                continue
            self._counted[stage.id] = counted
            stage.every = RARELY if counted.runs - before.runs >= MANY else 1
            rows, made = counted.rows_in - before.rows_in, counted.rows_out - before.rows_out
            # If none were timed, those that were so far.
            since = before if counted.timed > before.timed else _NOTHING
            per_row = (counted.seconds - since.seconds) / max(counted.timed - since.timed, 1)
            seconds = per_row * rows + counted.watermark_seconds - before.watermark_seconds
            producers = topology.producers(stage.id)
            wide = widths[producers[0]] if producers else self.stream_width.get(stage.id, 0.0)
            statistics.observe(stage.id, rows, made, seconds, rows * wide, made * stage.width)
            statistics.arrive(stage.id, counted.came - before.came)
        statistics.update(now)

    def _counters(self, stage: Stage, came: int) -> Counted:
        """Of an operator, up to now. No fewer rows have come than the last time: a train on its way through neither
        waits nor is counted."""
        queues = self.wiring.queues
        waiting = sum([queues[edge].rows for edge in self.wiring.topology.inputs[stage.id]])
        return Counted(
            stage.rows_in,
            stage.rows_out,
            stage.seconds,
            stage.timed,
            stage.watermark_seconds,
            max(came, stage.rows_in + waiting),
            stage.runs,
        )

    def prepare(self) -> None:
        """Gets ready for the scheduler's units if they are new. Called when nothing runs that they would change."""
        if self.scheduler.units is self._linked:
            return
        self._before = (self.grants, self.seconds)
        units = self._linked = self.scheduler.units
        self.wiring.link(units.cut)
        for stage in self.wiring.stages:
            stage.every = 1
        topology, stages, queues = self.view.topology, self.wiring.stages, self.wiring.queues
        edges = topology.edges
        self.units = [
            LiveUnit(
                unit.id,
                [Entry(e, queues[e], stages[edges[e].consumer], edges[e].port) for e in unit.entries],
                len(unit.operators),
            )
            for unit in units.units
        ]


def _age(entry: Entry) -> float:
    return entry.queue.oldest


def _once() -> bool:
    return False

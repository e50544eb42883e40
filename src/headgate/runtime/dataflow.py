"""The live operators, the edges between them, and one pass of an item through a unit.

An item goes depth first over the direct edges, as in direct interoperability (000 §2.4); at a queued edge or an outbox
it leaves the unit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from threading import current_thread, main_thread

from headgate.graph.operators import KINDS, Operator, Source
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.operators.batch import Batch
from headgate.operators.contract import LiveOperator
from headgate.operators.stateless import Stateless
from headgate.runtime.flight import FlightRecord, recorded
from headgate.runtime.outbox import Outbox
from headgate.runtime.queue import OUTBOX, EdgeQueue
from headgate.scheduling import Routes
from headgate.scheduling.graphs import topology_of

WIDTH_ONE_IN = 21
"""One timed pass in this many also measures the width of the rows that operators emit."""

_FRESH = frozenset(kind for kind, operator in KINDS.items() if operator.makes_rows)
"""Kinds of operators whose results share no memory with their input."""


class Stage:
    """An operator at its place in the network.

    Where its results go under the present cut (set by `link` under the lock while no grant runs):

    - `direct`: the consumers it calls, with their ports; `queued`: the edges it writes to; `outboxes`: of the queries
      whose result it is; `emits`: whether results leave the unit here (queued edges or outboxes)
    - `cls`: the highest class that reads its queued edges
    - `watermark_route`: for an operator that watermarks do not change, where they go: (stages with state and their
      ports, edges); None for an operator with state
    - `materializes`: a pending selection is applied here, because a consumer, a queue or an outbox keeps the rows
    - `tracked`: its results may share memory with other waiting batches

    Counters, written by the one thread that runs the operator; they only grow, so another thread may read them at any
    time: `rows_in`, `rows_out`; `runs`: batches that entered a unit here, of which one in `sampling` is timed (the next
    in `until_timed` passes); `seconds` spent on the `timed` rows and `watermark_seconds` on watermarks; `width` is
    bytes per emitted row.
    """

    __slots__ = (
        "advance",
        "cls",
        "direct",
        "emits",
        "failed",
        "id",
        "key",
        "kind",
        "live",
        "materializes",
        "number",
        "outboxes",
        "process",
        "queued",
        "rows_in",
        "rows_out",
        "runs",
        "sampling",
        "seconds",
        "timed",
        "tracked",
        "until_timed",
        "watermark_route",
        "watermark_seconds",
        "width",
    )

    def __init__(self, id: int, number: int, kind: str, key: str, live: LiveOperator) -> None:
        self.id = id
        self.number = number
        self.kind = kind
        self.key = key
        self.live = live
        self.process = live.process
        self.advance = live.advance
        self.failed = False
        self.outboxes: tuple[Outbox, ...] = ()
        self.direct: tuple[tuple[Stage, int], ...] = ()
        self.queued: tuple[int, ...] = ()
        self.emits = False
        self.cls = 0
        self.watermark_route: tuple[tuple[tuple[Stage, int], ...], tuple[int, ...]] | None = None
        self.materializes = False
        self.tracked = True
        self.rows_in = 0
        self.rows_out = 0
        self.runs = 0
        self.sampling = 1
        self.until_timed = 1
        self.seconds = 0.0
        self.timed = 0
        self.watermark_seconds = 0.0
        self.width = 0.0

    def limit(self, record: FlightRecord, seconds: float) -> None:
        """For a stage that runs users' functions: its calls enter the flight record, with a time limit per batch."""
        self.process = recorded(record, self.key, seconds, self.live.process)
        self.advance = recorded(record, self.key, seconds, self.live.advance)

    @property
    def spent(self) -> float:
        """Seconds spent in the operator; the cost of untimed rows is extrapolated from timed ones."""
        return self.seconds * self.rows_in / max(self.timed, 1) + self.watermark_seconds

    @property
    def stateless(self) -> bool:
        """Whether watermarks pass through it unchanged."""
        return isinstance(self.live, Stateless)

    def link(
        self, direct: tuple[tuple[Stage, int], ...], queued: tuple[int, ...], readers: Sequence[Stage], highest: int
    ) -> None:
        """Sets where results go: `readers` read the queued edges, `highest` is the highest class among them.

        Consumers are linked before their producers: `watermark_route` is composed of theirs.
        """
        self.direct = direct
        self.queued = queued
        self.cls = highest
        keeps = any(not consumer.stateless for consumer, _ in direct)
        self.emits = bool(queued) or bool(self.outboxes)
        self.materializes = keeps or self.emits
        # If this operator and all readers create new rows, its results share memory with no other batch.
        others = [*readers, *(consumer for consumer, _ in direct)] if self.outboxes else readers
        self.tracked = any(stage.kind not in _FRESH for stage in (self, *others))
        if not self.stateless:
            self.watermark_route = None
            return
        stages: list[tuple[Stage, int]] = []
        edges = list(queued)
        for consumer, port in direct:
            if consumer.watermark_route is None:
                stages.append((consumer, port))
            else:
                stages += consumer.watermark_route[0]
                edges += consumer.watermark_route[1]
        self.watermark_route = (tuple(stages), tuple(edges))


MakeLive = Callable[[Operator], LiveOperator]


def key_of(node: Operator) -> str:
    """A name for an operator that is the same in every process, whatever else is in the graph."""
    return hashlib.sha256(node.text.encode()).hexdigest()[:16]


def edge_key(producer: Operator, consumer: Operator, port: int) -> str:
    """A name for an edge that is the same in every process, whatever else is in the graph."""
    start = f"~{producer.stream}" if isinstance(producer, Source) else key_of(producer)
    return _edge_key(start, key_of(consumer), port)


def _edge_key(producer: str, consumer: str, port: int) -> str:
    return f"{producer}>{consumer}:{port}"


def plan_key(query: Query) -> str:
    """Identifies the plan of a query and the attempt at it: a failure belongs to both, so a retry starts without it."""
    key = key_of(query.plan)
    return f"{key}#{query.attempt}" if query.attempt else key


class Wiring:
    """The stages and queues of the present graph, numbered as its topology numbers them.

    A source is no stage: its edges come from the stream (see `topology_of`). Stages and queues of an earlier wiring are
    kept where the graph still has them: their keys do not depend on the rest of the graph. `moved`: edges of the
    earlier wiring whose queue another edge gets, both by their keys.
    """

    def __init__(
        self,
        graph: SharedGraph,
        outboxes: Mapping[str, Outbox],
        make: MakeLive,
        record: FlightRecord,
        before: Wiring | None = None,
        moved: Mapping[str, str] | None = None,
    ) -> None:
        nodes = graph.operators
        self.outboxes = outboxes
        self.topology, numbers = topology_of(graph)
        place = {n: index for index, n in enumerate(numbers)}
        keys = {n: key_of(nodes[n]) for n in numbers}
        self.edge_keys: list[str] = []
        for edge in self.topology.edges:
            producer = f"~{edge.stream}" if edge.producer is None else keys[numbers[edge.producer]]
            self.edge_keys.append(_edge_key(producer, keys[numbers[edge.consumer]], edge.port))
        old = {} if before is None else {stage.key: stage for stage in before.stages}
        self.stages: list[Stage] = []
        for n in numbers:
            seconds = nodes[n].time_limit
            stage = old.get(keys[n])
            if stage is None:
                # Making an operator imports its users' functions.
                made = make if seconds is None else recorded(record, keys[n], seconds, make)
                stage = Stage(place[n], n, nodes[n].kind, keys[n], made(nodes[n]))
            if seconds is not None:
                stage.limit(record, seconds)
            stage.id, stage.number = place[n], n
            stage.outboxes = tuple(outboxes[q.name] for q in graph.outputs(n))
            self.stages.append(stage)
        kept: dict[str, EdgeQueue] = {}
        if before is not None:
            to = moved or {}
            kept = {to.get(k, k): queue for k, queue in zip(before.edge_keys, before.queues, strict=True)}
        self.queues: list[EdgeQueue] = [kept.pop(key) if key in kept else EdgeQueue() for key in self.edge_keys]
        self.removed = list(kept.values())
        """Queues of the earlier wiring whose edges are gone; the owner of the wiring empties them."""

    def link(self, routes: Routes) -> None:
        """Sets where the results of every stage go."""
        topology, stages = self.topology, self.stages
        for operator in reversed(topology.order):
            direct = tuple((stages[consumer], port) for consumer, port in routes.direct[operator])
            queued = routes.queued[operator]
            readers = [stages[topology.edges[e].consumer] for e in queued]
            highest = min((topology.operator_class[stage.id] for stage in readers), default=OUTBOX)
            stages[operator].link(direct, queued, readers, highest)


Emitted = tuple[Stage, Batch | int, tuple[int, ...], tuple[Outbox, ...]]
"""An item that leaves a unit: its producer, rows or a watermark, the edges and the outboxes that it goes to."""


def never() -> bool:
    """False."""
    return False


class Flow:
    """Takes batches and watermarks through the operators of a unit. One object per thread; `run` needs no lock.

    Rows are always counted. Stages that run often are sampled: one pass in `Stage.sampling` is timed, and one timed
    pass in `WIDTH_ONE_IN` measures the width of rows, so that measuring costs almost nothing.

    `emitted` collects the items that leave the unit, in order, until `Loop.deliver` takes them. An operator that raises
    is marked as failed and added to `errors`; the item still goes to all others. `unit` is the unit that runs or ran
    last, `since` the beginning of its grant, `rows_out` the rows emitted in it, `seconds` all time spent in operators.
    `over`, which is called under the lock, says whether a grant should end before its time.
    """

    __slots__ = ("_clock", "emitted", "errors", "over", "rows_out", "seconds", "since", "unit")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.emitted: list[Emitted] = []
        self.errors: list[tuple[Stage, BaseException]] = []
        self.over: Callable[[], bool] = never
        self.seconds = 0.0
        self.rows_out = 0
        self.unit = 0
        self.since = 0.0

    def run(self, stage: Stage, port: int, item: Batch | int, rows: int) -> None:
        """Runs an item that enters `stage` at `port`: a batch with `rows` selected rows, or a watermark (0 rows)."""
        clock, emitted = self._clock, self.emitted
        if rows == 0 and stage.watermark_route is not None and not stage.watermark_route[0] and not stage.failed:
            # No operator of this unit handles the watermark: it only passes through.
            if stage.watermark_route[1]:
                emitted.append((stage, item, stage.watermark_route[1], ()))
            return
        # A stack: consumers are pushed in reverse, so that each batch is processed completely before the next.
        todo: list[tuple[Stage, int, Batch | int, int]] = [(stage, port, item, rows)]
        sampling, timed, sized = 1, True, False
        if rows:
            stage.until_timed -= 1
            timed = stage.until_timed <= 0
            if timed:
                sampling = stage.until_timed = stage.sampling
                stage.runs += sampling
                sized = not stage.runs % WIDTH_ONE_IN
        began = then = clock() if timed else 0.0
        while todo:
            stage, port, item, rows = todo.pop()
            if stage.failed:
                continue
            try:
                if isinstance(item, Batch):
                    made = stage.process(port, item)
                    stage.rows_in += rows
                    if made:
                        last = self._forward(stage, made, todo)
                elif stage.watermark_route is None:
                    made, watermark = stage.advance(port, item)
                    self._forward_watermark(stage, made, watermark, todo)
                else:
                    targets, edges = stage.watermark_route
                    if edges:
                        emitted.append((stage, item, edges, ()))
                    for consumer, into in reversed(targets):
                        todo.append((consumer, into, item, 0))
                    continue
            except BaseException as error:  # an error in a user's function fails its queries, never the network
                if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
                    raise
                stage.failed = True
                self.errors.append((stage, error))
                then = clock()
                continue
            # One clock reading between operators: materializing a selection counts for the operator that made it.
            if timed:
                now = clock()
                if rows:
                    stage.seconds += now - then
                    stage.timed += rows
                    if sized and made and last.rows.num_rows:
                        # Not the size of its buffers: a train may be a small part of a batch.
                        stage.width = last.rows.nbytes / last.rows.num_rows
                else:
                    stage.watermark_seconds += now - then
                then = now
        if timed:
            self.seconds += (then - began) * sampling

    def _forward_watermark(
        self,
        stage: Stage,
        made: list[Batch],
        watermark: int | None,
        todo: list[tuple[Stage, int, Batch | int, int]],
    ) -> None:
        """Passes on the batches that a watermark made an operator emit, and behind them the watermark, if any."""
        if watermark is not None:
            for consumer, into in reversed(stage.direct):
                todo.append((consumer, into, watermark, 0))
        if made:
            self._forward(stage, made, todo)
        if watermark is not None and stage.queued:
            self.emitted.append((stage, watermark, stage.queued, ()))

    def _forward(self, stage: Stage, made: list[Batch], todo: list[tuple[Stage, int, Batch | int, int]]) -> Batch:
        """Passes results to direct consumers through `todo`, to queues and outboxes through `emitted`.

        Returns the last batch.
        """
        place = len(todo)
        for batch in made:
            mask = batch.mask
            if mask is None:
                rows = batch.rows.num_rows
            elif stage.materializes:
                # Applied once, for all consumers that keep the rows.
                batch = batch.materialized()
                rows = batch.rows.num_rows
            else:
                rows = mask.true_count
            if not rows:
                continue
            stage.rows_out += rows
            if stage.emits:
                self.emitted.append((stage, batch, stage.queued, stage.outboxes))
                self.rows_out += rows
            for consumer, into in stage.direct:
                # Inserted below the items of earlier batches, which are taken from the stack first.
                todo.insert(place, (consumer, into, batch, rows))
        return batch

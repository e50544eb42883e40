"""The state of a network between two grants: graph, live operators, queues, results, failures and watermarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headgate.graph.operators import Operator, Source
from headgate.graph.shared import SharedGraph
from headgate.operators.batch import NEVER
from headgate.operators.contract import LiveOperator
from headgate.operators.send import LiveSend
from headgate.runtime.dataflow import Stage, Wiring, key_of, plan_key
from headgate.runtime.flight import FlightRecord
from headgate.runtime.limits import Failure
from headgate.runtime.loop import Loop
from headgate.runtime.measurement import Figures, figures, statistics_from
from headgate.runtime.memory import Memory
from headgate.runtime.outbox import Outbox
from headgate.runtime.pausing import Held, held
from headgate.runtime.saved_figures import SavedFigures
from headgate.runtime.shedding import Shedding, shedding_of
from headgate.runtime.state_parts import StateParts
from headgate.runtime.threads import ThreadControl
from headgate.scheduling import Policy, Scheduler, View


class NetworkState:
    """Everything that a snapshot saves and a change of the graph rebuilds.

    It is changed under the lock while no grant runs (`ThreadControl.alone`), except for queues, memory, outboxes and
    watermarks, which the loop and `Network` change under the lock.

    - `policy`: the policy that runs the graph (in the network's mode)
    - `sources`: the source of each stream that some query reads; `watermarks`: the watermark of each stream ever read;
      `sent`: the watermark that its consumers have been sent; `newest`: the newest event time of the rows pushed
    - `outboxes`: of all running queries, and of removed ones whose results were not taken yet
    - `earlier`: number and seconds of the grants of earlier loops
    - `record`: the flight record
    - `changing`: the edges (by key) whose rows must be processed before the plan of a query changes; while there are
      any, all others are held. Takes effect with `rebuild`
    """

    def __init__(
        self,
        graph: SharedGraph,
        policy: Policy,
        make: Callable[[Operator], LiveOperator],
        memory: Memory,
        control: ThreadControl,
        clock: Callable[[], float],
        longest_grant: float,
        record: FlightRecord,
    ) -> None:
        self.graph = graph
        self.policy = policy
        self.memory = memory
        self.control = control
        self.clock = clock
        self.outboxes: dict[str, Outbox] = {}
        self.failures: dict[str, Failure] = {}
        self.sources: dict[str, Source] = {}
        self.watermarks: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.newest: dict[str, int] = {}
        self.state_parts = StateParts(memory, record)
        self.saved_figures = SavedFigures()
        self.earlier = (0, 0.0)
        self.changing: frozenset[str] = frozenset()
        self._make = make
        self._longest_grant = longest_grant
        self.record = record
        self.loop = self._build(None, {})

    @property
    def wiring(self) -> Wiring:
        return self.loop.wiring

    @property
    def grants(self) -> int:
        """The number of grants so far."""
        return self.earlier[0] + self.loop.grants

    @property
    def seconds(self) -> float:
        """The total time of all grants so far."""
        return self.earlier[1] + self.loop.seconds

    @property
    def waiting(self) -> int:
        """Rows (and watermarks) that wait in queues, without those of paused queries."""
        held = self.loop.held.edges
        return sum(queue.waiting for edge, queue in enumerate(self.wiring.queues) if edge not in held)

    def waiting_for(self, query: str) -> int:
        """The rows and watermarks that wait for the operators of a query."""
        topology = self.wiring.topology
        number = next(n for n, each in enumerate(topology.queries) if each.name == query)
        edges = zip(topology.edges, self.wiring.queues, strict=True)
        return sum(queue.waiting for edge, queue in edges if number in topology.serves[edge.consumer])

    @property
    def selected(self) -> dict[str, tuple[int, int]]:
        """For each stream read only by selections: its rows so far, and the rows kept by all selections together."""
        found: dict[str, tuple[int, int]] = {}
        topology = self.wiring.topology
        for stream, edges in topology.stream_edges.items():
            first = [self.wiring.stages[topology.edges[e].consumer] for e in edges]
            if all(stage.kind == "select" for stage in first):
                found[stream] = (max(stage.rows_in for stage in first), sum(stage.rows_out for stage in first))
        return found

    @property
    def reached(self) -> dict[str, int]:
        """The watermark of each fragment: all its results up to it have been made."""
        stages = ((stage, stage.live) for stage in self.wiring.stages)
        return {
            outbox.query.name: live.reached
            for stage, live in stages
            if isinstance(live, LiveSend)
            for outbox in stage.outboxes
        }

    def rebuild(self, known: Mapping[str, Figures] | None = None, moved: Mapping[str, str] | None = None) -> None:
        """Builds the network for the present graph, around the operators and queues that stay.

        `known` are statistics of operators by their keys; by default the present ones. `moved`: see `Wiring`.
        """
        old = self.loop
        if known is None:
            known = self.figures()
        self.earlier = (self.grants, self.seconds)
        self.loop = self._build(old.wiring, known, moved)
        self.loop.view.performance = old.view.performance

    def _build(
        self, before: Wiring | None, known: Mapping[str, Figures], moved: Mapping[str, str] | None = None
    ) -> Loop:
        for query in self.graph.queries.values():
            outbox = self.outboxes.get(query.name)
            if outbox is None or not outbox.query.same_results(query):
                self.outboxes[query.name] = Outbox(query)
            else:
                outbox.query = query
        self.sources = {source.stream: source for _, source in self.graph.sources()}
        for stream in self.sources:
            self.watermarks.setdefault(stream, NEVER)
            self.sent.setdefault(stream, NEVER)
        wiring = Wiring(self.graph, self.outboxes, self._make, self.record, before, moved)
        for queue in wiring.removed:
            for queued in queue.clear():
                self.memory.release(queued)
        if before is not None:
            self.state_parts.forget({s.key for s in before.stages} - {s.key for s in wiring.stages})
        now = self.clock()
        view = View.of(wiring.topology, statistics_from(wiring, known, now))
        pauses = held(wiring.topology, self.graph.queries)
        self._drop_rows(wiring, pauses)
        if self.changing:
            others = (edge for edge, key in enumerate(wiring.edge_keys) if key not in self.changing)
            pauses = replace(pauses, edges=pauses.edges.union(others))
        for edge, queue in enumerate(wiring.queues):
            if edge not in pauses.edges:
                view.queues.rows[edge] = queue.waiting
                view.queues.oldest[edge] = queue.oldest
        boxes = [self.outboxes[query.name].latency for query in wiring.topology.queries]
        view.delivered = lambda: [(latency.rows, latency.total) for latency in boxes]
        shedding = Shedding() if before is None else self.loop.shedding
        shed = shedding_of(wiring.topology, self.graph.queries, self.outboxes, shedding)
        scheduler = Scheduler(self.policy, view, now, pauses.edges)
        return Loop(
            wiring, scheduler, self.memory, self.control, self.clock, self._longest_grant, self.record, pauses, shed
        )

    def _drop_rows(self, wiring: Wiring, pauses: Held) -> None:
        """Drops the rows that wait for queries which are paused and do not keep them."""
        for edge, losers in pauses.dropping.items():
            queue = wiring.queues[edge]
            for query in losers:
                self.outboxes[query].dropped += queue.rows
            for queued in queue.drop_rows():
                self.memory.release(queued)

    def stage(self, node: Operator) -> Stage:
        """The live operator of a node of the graph."""
        key = key_of(node)
        return next(stage for stage in self.wiring.stages if stage.key == key)

    def figures(self) -> dict[str, list[float]]:
        """The statistics of each operator, by its key."""
        return figures(self.wiring, self.loop.view.statistics)

    # Failures: `rebuild` follows ------------------------------------------------------------------------

    def fail(self, query: str, operator: str, detail: str, error: str) -> None:
        """Removes a query that failed from the graph and records why."""
        if query in self.graph.queries:
            plan = plan_key(self.graph.queries[query])
            self.failures[query] = Failure(query, operator, detail, error, self.clock(), plan)
            self.graph.remove(query)

    def fail_stage(self, stage: Stage, error: str) -> None:
        """Removes all queries that need an operator that failed."""
        topology = self.wiring.topology
        for query in [topology.queries[index].name for index in topology.serves[stage.id]]:
            if query in self.graph.queries:
                detail = self.graph.node(stage.number).detail
                self.fail(query, topology.operators[stage.id], detail, error)

    def unit_name(self, unit: int) -> str:
        """The operators of a unit and the queries that it serves."""
        topology = self.wiring.topology
        operators = self.loop.scheduler.units[unit].operators
        queries = sorted({topology.queries[q].name for o in operators for q in topology.serves[o]})
        return f"{' > '.join(topology.names(operators))} (for {', '.join(queries)})"

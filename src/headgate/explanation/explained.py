"""What `headgate explain` shows of a script, as data: operators, the queries that share them, units and their turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headgate.explanation.wording import detail, expression
from headgate.graph.durations import short_duration
from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query, Stream
from headgate.graph.shared import SharedGraph
from headgate.graph.types import Schema, sql_name
from headgate.runtime.dataflow import key_of
from headgate.scheduling import Edge, Statistics, Topology, Unit, Units, View, policy
from headgate.scheduling.graphs import topology_of

if TYPE_CHECKING:
    from headgate.spark.placement import Placement
    from headgate.sql import Catalog
    from headgate.sql.context import Context


@dataclass(frozen=True)
class ExplainedOperator:
    """One operator of the shared graph. Costs are the estimates that the scheduler uses until it has measured.

    An operator is in several units if the policy schedules paths that overlap.
    """

    number: int
    kind: str
    detail: str
    inputs: tuple[int, ...]
    queries: tuple[str, ...]
    schema: Schema
    stateful: bool
    units: tuple[int, ...]
    seconds: float | None
    selectivity: float | None
    key: str
    """Its name in the metrics of a network (`runtime.dataflow.key_of`)."""

    @property
    def shared(self) -> bool:
        return len(self.queries) > 1


@dataclass(frozen=True)
class ExplainedUnit:
    """One unit under the policy. `turn`: its place among the grants if a row waits on every queue (None: never)."""

    number: int
    operators: tuple[int, ...]
    reads: tuple[int, ...]
    cls: str
    turn: int | None


@dataclass(frozen=True)
class ExplainedPlacement:
    """Where queries and their fragments run, and the routes of each stream: (route in words, its queries).

    The results of a fragment are a stream with the name of the fragment.
    """

    replicas: int
    homes: dict[str, int | None]
    routes: dict[str, list[tuple[str, tuple[str, ...]]]]

    def json(self) -> dict[str, Any]:
        """The placement as plain values; a query whose replica is null runs on all."""
        return {
            "replicas": self.replicas,
            "queries": self.homes,
            "streams": {
                stream: [{"route": route, "queries": list(queries)} for route, queries in found]
                for stream, found in self.routes.items()
            },
        }


@dataclass(frozen=True)
class Explanation:
    """The shared graph of a script under a policy."""

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    operators: tuple[ExplainedOperator, ...]
    outputs: dict[str, int]
    policy: str
    units: tuple[ExplainedUnit, ...]
    queued: frozenset[tuple[int, int]]
    placement: ExplainedPlacement | None = None

    @property
    def shared(self) -> list[ExplainedOperator]:
        return [step for step in self.operators if step.shared]

    def json(self) -> dict[str, Any]:
        """The explanation as plain values."""
        return {
            "policy": self.policy,
            "streams": [
                {
                    "name": s.name,
                    "columns": _columns(s.schema),
                    "time": None if s.time is None else s.schema[s.time].name,
                    "delay": short_duration(s.delay) if s.time is not None else None,
                }
                for s in self.streams
            ],
            "queries": [
                {
                    "name": q.name,
                    "class": q.cls.name,
                    "priority": q.cls.priority,
                    "mode": q.mode,
                    "output": self.outputs[q.name],
                    "columns": _columns(q.schema),
                    "sinks": [s.format for s in q.sinks],
                }
                for q in self.queries
            ],
            "operators": [
                {
                    "number": s.number,
                    "kind": s.kind,
                    "detail": s.detail,
                    "inputs": list(s.inputs),
                    "queries": list(s.queries),
                    "shared": s.shared,
                    "stateful": s.stateful,
                    "columns": _columns(s.schema),
                    "units": list(s.units),
                    "seconds_per_row": s.seconds,
                    "selectivity": s.selectivity,
                }
                for s in self.operators
            ],
            "units": [
                {
                    "number": u.number,
                    "operators": list(u.operators),
                    "reads": list(u.reads),
                    "class": u.cls,
                    "turn": u.turn,
                }
                for u in self.units
            ],
            "queued": sorted(list(edge) for edge in self.queued),
            **({} if self.placement is None else {"placement": self.placement.json()}),
        }


def explain(
    catalog: Catalog | Context, policy_text: str, replicas: int = 1, placement: Placement | None = None
) -> Explanation:
    """Explains all queries of a catalog under a policy, and their placement if there are several replicas. PolicyError
    if there is no such policy."""
    graph = SharedGraph()
    for query in catalog.queries.values():
        graph.add(query)
    nodes = graph.operators
    chosen = policy(policy_text)
    units: tuple[ExplainedUnit, ...] = ()
    queued: frozenset[tuple[int, int]] = frozenset()
    units_of: dict[int, list[int]] = {}
    figures: dict[int, tuple[float, float]] = {}
    topology, numbers = topology_of(graph)
    if numbers:
        statistics = Statistics(topology)
        view = View.of(topology, statistics)
        cut = chosen.cut(view)
        made = Units.of(topology, cut)
        turns = _turns(chosen, view, made)
        units = tuple(_explained_unit(unit, topology, numbers, turns.get(unit.id)) for unit in made.units)
        for unit in units:
            for number in unit.operators:
                units_of.setdefault(number, []).append(unit.number)
        figures = {n: (statistics.cost[i], statistics.selectivity[i]) for i, n in enumerate(numbers)}
        queued = frozenset(_ends(topology.edges[e], numbers, graph) for e in cut.queued)
    explained = tuple(_explained(number, node, graph, units_of, figures) for number, node in nodes.items())
    outputs = {q.name: graph.number(q.plan) for q in graph.queries.values()}
    used = {node.stream for node in nodes.values() if isinstance(node, Source)}
    streams = tuple(s for s in catalog.streams.values() if s.name in used)
    queries = tuple(graph.queries.values())
    placed = _placed(queries, streams, replicas, placement) if replicas > 1 else None
    return Explanation(streams, queries, explained, outputs, policy_text, units, queued, placed)


def _placed(
    queries: Sequence[Query], streams: Sequence[Stream], replicas: int, present: Placement | None
) -> ExplainedPlacement:
    """Where the queries run: under the present placement, or that before anything is measured."""
    from headgate.spark.exchange import divisions
    from headgate.spark.placing import place
    from headgate.spark.replicas import parts_of

    if present is None:
        parts = list(parts_of(queries, replicas) or queries)
        placement = place(parts, replicas)
    else:
        ways = [way for query in queries for way in divisions(query)]
        parts = list({part.name: part for way in ways for part in way.parts}.values())
        placement = present
    # A query that does not run now has no place.
    parts = [part for part in parts if part.name in placement.routes]
    # The results of a fragment are a stream too.
    names = {part.name: part.schema.names for part in parts} | {each.name: each.schema.names for each in streams}
    routes: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for stream in placement.streams:
        for route in placement.routes_of(stream):
            users = tuple(part.name for part in parts if placement.routes[part.name].get(stream) == route)
            if not users:
                # That of a query that has ended.
                continue
            if route.kind == "key":
                text = f"by {', '.join(expression(key, names[stream]) for key in route.keys)}"
            else:
                text = "anywhere" if route.kind == "spread" else f"to replica {route.replica}"
            routes.setdefault(stream, []).append((text, users))
    return ExplainedPlacement(replicas, {part.name: placement.replica_of(part.name) for part in parts}, routes)


def _turns(chosen: Any, view: View, units: Units) -> dict[int, int]:
    """The turns of units: the order in which the policy grants them if one row waits on each of their queues."""
    for unit in units.units:
        for edge in unit.entries:
            view.queues.rows[edge] = 1.0
            view.queues.bytes[edge] = 100.0
            view.queues.oldest[edge] = 0.0
    selector = chosen.selector(view, units)
    for unit in units.units:
        selector.arrived(unit.id)
    turns: dict[int, int] = {}
    # A class without credit may be passed over for a round, so more rounds than units are allowed.
    for moment in range(20 * len(units)):
        grant = selector.next(float(moment))
        if grant is None:
            break
        turns.setdefault(grant.unit, len(turns) + 1)
        for edge in units[grant.unit].entries:
            view.queues.rows[edge] = view.queues.bytes[edge] = 0.0
            view.queues.oldest[edge] = float("inf")
        selector.finished(grant.unit, float(moment), 1e-6, 1.0, 0.0)
    return turns


def _explained_unit(unit: Unit, topology: Topology, numbers: list[int], turn: int | None) -> ExplainedUnit:
    return ExplainedUnit(
        unit.id + 1,
        tuple(numbers[o] for o in unit.operators),
        tuple(sorted({numbers[topology.edges[e].consumer] for e in unit.entries})),
        topology.classes[unit.cls].name,
        turn,
    )


def _ends(edge: Edge, numbers: list[int], graph: SharedGraph) -> tuple[int, int]:
    """A queued edge by the numbers of its ends in the graph."""
    consumer = numbers[edge.consumer]
    inputs = graph.inputs(consumer)
    return (inputs[edge.port] if inputs else consumer, consumer)


def _explained(
    number: int,
    node: Operator,
    graph: SharedGraph,
    units_of: dict[int, list[int]],
    figures: dict[int, tuple[float, float]],
) -> ExplainedOperator:
    seconds, selectivity = figures.get(number, (None, None))
    users = graph.users(number)
    return ExplainedOperator(
        number,
        node.kind,
        detail(node),
        graph.inputs(number),
        tuple(name for name in graph.queries if name in users),
        node.schema,
        node.stateful,
        tuple(units_of.get(number, ())),
        seconds,
        selectivity,
        key_of(node),
    )


def _columns(schema: Schema) -> list[dict[str, str]]:
    return [{"name": f.name, "type": sql_name(f.type)} for f in schema.fields]


def listed(names: Iterable[str], most: int = 4) -> str:
    """The first names, and the number of those left out."""
    found = list(names)
    more = len(found) - most
    return ", ".join(found[:most]) + (f" and {more} more" if more > 0 else "")


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its word.

    >>> counted(1, "unit"), counted(2, "query", "queries")
    ('1 unit', '2 queries')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"

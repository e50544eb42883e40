"""Cuts, units and routes: which edges are queued, what is scheduled, and where rows go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.scheduling.errors import TopologyError
from headgate.scheduling.topology import Topology


@dataclass(frozen=True)
class Cut:
    """Which edges are queued; all others are direct: the producer calls the consumer.

    - `queued`: edge ids. A stream's edge that is not queued is run by the source's own thread (direct
      interoperability, 000 §2.4).
    - `together`: groups of queued edges of one fork that one unit reads, so that the shared copy is
      freed in one pass (001 §4, the fork-segment).
    - `per_entry`: every entry of a component is ranked separately, like the leaf-to-root paths of 003;
      otherwise a component is one unit, however many queues it reads.
    - `order`: edges by preference; an operator calls its consumers in this order (empty: as declared).
    """

    queued: frozenset[int]
    together: frozenset[frozenset[int]] = frozenset()
    per_entry: bool = False
    order: tuple[int, ...] = ()

    @classmethod
    def every(cls, topology: Topology) -> Cut:
        """Each operator is a separate unit."""
        return cls(frozenset(range(len(topology.edges))))

    @classmethod
    def sources(cls, topology: Topology, *, per_entry: bool = False) -> Cut:
        """Only the edges from streams are queued."""
        return cls(frozenset(e for ids in topology.stream_edges.values() for e in ids), per_entry=per_entry)

    @classmethod
    def direct(cls) -> Cut:
        """No queue at all: direct interoperability."""
        return cls(frozenset())

    @classmethod
    def between(cls, topology: Topology, groups: Iterable[Iterable[int]], *, per_entry: bool = False) -> Cut:
        """The cut whose units are these groups of operators: an edge inside a group is direct.

        Operators of one group that meet only at a fork read the fork together.
        """
        group_of: dict[int, int] = {}
        for number, members in enumerate(groups):
            for operator in members:
                group_of[operator] = number
        queued = frozenset(
            edge.id
            for edge in topology.edges
            if edge.producer is None or group_of.get(edge.producer, -1) != group_of.get(edge.consumer, -2)
        )
        together: set[frozenset[int]] = set()
        for edge_id in queued:
            group = group_of.get(topology.edges[edge_id].consumer, -1)
            fork = frozenset(
                e
                for e in topology.siblings(edge_id)
                if e in queued and group_of.get(topology.edges[e].consumer, -2) == group
            )
            if len(fork) > 1:
                together.add(fork)
        return cls(queued, frozenset(together), per_entry)


@dataclass(frozen=True, slots=True)
class Unit:
    """A virtual operator: the thing that a grant runs.

    A grant takes rows from `entries` (queued edges), oldest first, and each row goes depth first through
    `operators` (topological order). Units of one `component` share operators: never run two at once.
    `cls` indexes `topology.classes`: the highest class of the component's consumers.
    """

    id: int
    component: int
    operators: tuple[int, ...]
    entries: tuple[int, ...]
    cls: int


@dataclass(frozen=True)
class Units:
    """All units of a cut; `of_edge[e]` is the unit that reads queued edge *e* (−1: the edge is direct)."""

    cut: Cut
    units: tuple[Unit, ...]
    of_edge: tuple[int, ...]
    component_of: tuple[int, ...]

    @classmethod
    def of(cls, topology: Topology, cut: Cut) -> Units:
        for edge in cut.queued:
            if not 0 <= edge < len(topology.edges):
                raise TopologyError(f"the cut queues edge {edge}, which the topology does not have")
        component_of = _components(topology, cut)
        count = max(component_of, default=-1) + 1
        members: list[list[int]] = [[] for _ in range(count)]
        for operator in topology.order:
            members[component_of[operator]].append(operator)
        entries: list[list[int]] = [[] for _ in range(count)]
        for edge_id in sorted(cut.queued):
            entries[component_of[topology.edges[edge_id].consumer]].append(edge_id)
        units: list[Unit] = []
        of_edge = [-1] * len(topology.edges)
        for component in range(count):
            highest = min(topology.operator_class[o] for o in members[component])
            groups = [[e] for e in entries[component]] if cut.per_entry else [entries[component]]
            for group in groups:
                if not group:
                    continue
                operators = members[component]
                if cut.per_entry:
                    reached = _reached(topology, cut, group)
                    operators = [o for o in operators if o in reached]
                for edge_id in group:
                    of_edge[edge_id] = len(units)
                units.append(Unit(len(units), component, tuple(operators), tuple(group), highest))
        return cls(cut, tuple(units), tuple(of_edge), component_of)

    def __len__(self) -> int:
        return len(self.units)

    def __getitem__(self, unit: int) -> Unit:
        return self.units[unit]


@dataclass(frozen=True)
class Routes:
    """Where rows go under a cut; the runtime and the simulator both follow it.

    - `direct[o]`: the consumers that operator *o* calls, as (operator, port), in the order of the cut
    - `queued[o]`: the queued edges that operator *o* writes to
    - `stream_queued[s]`: the queued edges that stream *s* feeds
    - `stream_direct[s]`: the consumers that the thread bringing rows of stream *s* calls (000 §2.4)
    """

    direct: tuple[tuple[tuple[int, int], ...], ...]
    queued: tuple[tuple[int, ...], ...]
    stream_queued: Mapping[str, tuple[int, ...]]
    stream_direct: Mapping[str, tuple[tuple[int, int], ...]]

    @classmethod
    def of(cls, topology: Topology, cut: Cut) -> Routes:
        position = {e: place for place, e in enumerate(cut.order)}

        def direct(edges: Iterable[int]) -> tuple[tuple[int, int], ...]:
            found = (topology.edges[e] for e in edges if e not in cut.queued)
            return tuple((edge.consumer, edge.port) for edge in found)

        def queued(edges: Iterable[int]) -> tuple[int, ...]:
            return tuple(e for e in edges if e in cut.queued)

        outputs = topology.outputs
        if position:
            outputs = tuple(tuple(sorted(edges, key=lambda e: position.get(e, e))) for edges in outputs)
        return cls(
            tuple(direct(edges) for edges in outputs),
            tuple(queued(edges) for edges in outputs),
            {stream: queued(edges) for stream, edges in topology.stream_edges.items()},
            {stream: direct(edges) for stream, edges in topology.stream_edges.items()},
        )


def _components(topology: Topology, cut: Cut) -> tuple[int, ...]:
    parent = list(range(len(topology.operators)))

    def root(operator: int) -> int:
        while parent[operator] != operator:
            parent[operator] = parent[parent[operator]]
            operator = parent[operator]
        return operator

    for edge in topology.edges:
        if edge.id not in cut.queued and edge.producer is not None:
            parent[root(edge.producer)] = root(edge.consumer)
    for group in cut.together:
        first, *others = sorted(group)
        for other in others:
            parent[root(topology.edges[other].consumer)] = root(topology.edges[first].consumer)
    # Components are numbered in topological order, so that the upstream unit wins a tie.
    numbers: dict[int, int] = {}
    for operator in topology.order:
        numbers.setdefault(root(operator), len(numbers))
    return tuple(numbers[root(o)] for o in range(len(topology.operators)))


def _reached(topology: Topology, cut: Cut, entries: Iterable[int]) -> set[int]:
    found: set[int] = set()
    todo = [topology.edges[e].consumer for e in entries]
    while todo:
        operator = todo.pop()
        if operator in found:
            continue
        found.add(operator)
        todo += [topology.edges[e].consumer for e in topology.outputs[operator] if e not in cut.queued]
    return found

"""The query graph as a scheduler sees it: operators, edges, queries and their classes, immutable."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headgate.scheduling.errors import TopologyError, closest

DEFAULT_CLASS = "default"


@dataclass(frozen=True, slots=True)
class Edge:
    """One queue-able connection. `producer` is None when a stream feeds the consumer."""

    id: int
    producer: int | None
    consumer: int
    port: int
    stream: str | None


@dataclass(frozen=True, slots=True)
class TopologyClass:
    """A class of queries; a higher priority gets more time."""

    name: str
    priority: float


@dataclass(frozen=True, slots=True)
class TopologyQuery:
    """A query: its class, the operator whose output is its result, and the latency (s) that its spec asks for."""

    name: str
    cls: TopologyClass
    output: int
    latency: float | None = None


@dataclass(frozen=True)
class Topology:
    """Operators (small ints; names for people), the edges between them, and the queries they serve.

    Build it with :meth:`of`. Everything after `queries` is derived:

    - `inputs[o]`, `outputs[o]`: edge ids into (by port) and out of operator *o*
    - `stream_edges[s]`: edge ids that stream *s* feeds (more than one: a fork at the source)
    - `order`: the operators in topological order
    - `serves[o]`: indices of the queries that need operator *o*
    - `results[o]`: indices of the queries whose result operator *o* produces
    - `classes`: by falling priority; `operator_class[o]` is the highest class that *o* serves
    """

    operators: tuple[str, ...]
    kinds: tuple[str, ...]
    edges: tuple[Edge, ...]
    queries: tuple[TopologyQuery, ...]
    inputs: tuple[tuple[int, ...], ...] = field(init=False, repr=False)
    outputs: tuple[tuple[int, ...], ...] = field(init=False, repr=False)
    stream_edges: Mapping[str, tuple[int, ...]] = field(init=False, repr=False)
    order: tuple[int, ...] = field(init=False, repr=False)
    serves: tuple[tuple[int, ...], ...] = field(init=False, repr=False)
    results: tuple[tuple[int, ...], ...] = field(init=False, repr=False)
    classes: tuple[TopologyClass, ...] = field(init=False, repr=False)
    operator_class: tuple[int, ...] = field(init=False, repr=False)
    _consumers: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    _producers: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        count = len(self.operators)
        inputs: list[list[int]] = [[] for _ in range(count)]
        outputs: list[list[int]] = [[] for _ in range(count)]
        streams: dict[str, list[int]] = {}
        for edge in self.edges:
            inputs[edge.consumer].append(edge.id)
            if edge.producer is not None:
                outputs[edge.producer].append(edge.id)
            elif edge.stream is not None:
                streams.setdefault(edge.stream, []).append(edge.id)
        results: list[list[int]] = [[] for _ in range(count)]
        for number, query in enumerate(self.queries):
            results[query.output].append(number)
        put = object.__setattr__
        put(self, "inputs", tuple(map(tuple, inputs)))
        put(self, "outputs", tuple(map(tuple, outputs)))
        put(self, "stream_edges", {name: tuple(ids) for name, ids in streams.items()})
        put(self, "results", tuple(map(tuple, results)))
        edges = self.edges
        put(self, "_consumers", tuple(tuple(edges[e].consumer for e in ids) for ids in outputs))
        fed = ((edges[e].producer for e in ids) for ids in inputs)
        put(self, "_producers", tuple(tuple(p for p in each if p is not None) for each in fed))
        put(self, "order", self._sorted())
        put(self, "serves", self._served())
        classes = sorted({query.cls for query in self.queries}, key=lambda c: (-c.priority, c.name))
        put(self, "classes", tuple(classes) or (TopologyClass(DEFAULT_CLASS, 1.0),))
        rank = {cls: index for index, cls in enumerate(self.classes)}
        last = len(self.classes) - 1
        put(
            self,
            "operator_class",
            tuple(min((rank[self.queries[q].cls] for q in served), default=last) for served in self.serves),
        )

    @classmethod
    def of(
        cls,
        inputs: Mapping[str, Iterable[str]],
        *,
        queries: Mapping[str, str | tuple[str, str]] | None = None,
        classes: Mapping[str, float] | None = None,
        kinds: Mapping[str, str] | None = None,
        streams: Iterable[str] | None = None,
    ) -> Topology:
        """A topology from `{operator: [input, …]}`; an input that is no operator is a stream.

        `queries` maps a query's name to its output operator, or to (operator, class); without it every
        operator that feeds no other is a query. `classes` maps class names to priorities. If `streams` is
        given, inputs must be operators or one of these.

        >>> Topology.of({"a": ["s"], "b": ["a"], "c": ["a"]}).order
        (0, 1, 2)
        """
        if not inputs:
            raise TopologyError("the topology has no operators; give at least one")
        names = tuple(inputs)
        number = {name: index for index, name in enumerate(names)}
        known_streams = None if streams is None else set(streams)
        edges: list[Edge] = []
        for name, sources in inputs.items():
            ports = [sources] if isinstance(sources, str) else list(sources)
            if not ports:
                raise TopologyError(f"operator '{name}' has no input; give it a stream or an operator")
            for port, source in enumerate(ports):
                producer = number.get(source)
                if producer is None and known_streams is not None and source not in known_streams:
                    hint = closest(source, [*names, *known_streams])
                    raise TopologyError(f"operator '{name}' reads unknown input '{source}'; {hint}")
                stream = source if producer is None else None
                edges.append(Edge(len(edges), producer, number[name], port, stream))
        return cls(names, _kinds(names, kinds or {}), tuple(edges), _queries(names, edges, queries, classes))

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(self.stream_edges)

    def id(self, operator: str) -> int:
        """The number of a named operator."""
        try:
            return self.operators.index(operator)
        except ValueError:
            raise TopologyError(f"unknown operator '{operator}'; {closest(operator, self.operators)}") from None

    def names(self, operators: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.operators[o] for o in operators)

    def siblings(self, edge: int) -> tuple[int, ...]:
        """The edges that carry the same rows as `edge` (itself included): its fork."""
        found = self.edges[edge]
        if found.producer is not None:
            return self.outputs[found.producer]
        return self.stream_edges[found.stream or ""]

    def consumers(self, operator: int) -> tuple[int, ...]:
        return self._consumers[operator]

    def producers(self, operator: int) -> tuple[int, ...]:
        return self._producers[operator]

    def _sorted(self) -> tuple[int, ...]:
        waiting = [sum(self.edges[e].producer is not None for e in ids) for ids in self.inputs]
        ready = deque(o for o, count in enumerate(waiting) if not count)
        order: list[int] = []
        while ready:
            operator = ready.popleft()
            order.append(operator)
            for edge in self.outputs[operator]:
                consumer = self.edges[edge].consumer
                waiting[consumer] -= 1
                if not waiting[consumer]:
                    ready.append(consumer)
        if len(order) < len(self.operators):
            stuck = ", ".join(f"'{self.operators[o]}'" for o, count in enumerate(waiting) if count)
            raise TopologyError(f"the graph has a cycle through or before {stuck}; a query graph is acyclic")
        return tuple(order)

    def _served(self) -> tuple[tuple[int, ...], ...]:
        served: list[set[int]] = [set(own) for own in self.results]
        for operator in reversed(self.order):
            for consumer in self.consumers(operator):
                served[operator] |= served[consumer]
        return tuple(tuple(sorted(queries)) for queries in served)


def _kinds(names: Sequence[str], kinds: Mapping[str, str]) -> tuple[str, ...]:
    for name in kinds:
        if name not in names:
            raise TopologyError(f"a kind is given for unknown operator '{name}'; {closest(name, names)}")
    return tuple(kinds.get(name, "select") for name in names)


def _queries(
    names: Sequence[str],
    edges: Sequence[Edge],
    queries: Mapping[str, str | tuple[str, str]] | None,
    classes: Mapping[str, float] | None,
) -> tuple[TopologyQuery, ...]:
    priorities = dict(classes or {})
    for name, priority in priorities.items():
        if not priority > 0:
            raise TopologyError(f"class '{name}' has priority {priority}; give a number above zero")
    priorities.setdefault(DEFAULT_CLASS, 1.0)
    if queries is None:
        fed = {edge.producer for edge in edges}
        queries = {name: name for number, name in enumerate(names) if number not in fed}
    built: list[TopologyQuery] = []
    for query, target in queries.items():
        operator, label = (target, DEFAULT_CLASS) if isinstance(target, str) else target
        if operator not in names:
            hint = closest(operator, names)
            raise TopologyError(f"query '{query}' ends at unknown operator '{operator}'; {hint}")
        if label not in priorities:
            hint = closest(label, priorities)
            raise TopologyError(f"query '{query}' is in unknown class '{label}'; {hint}")
        built.append(TopologyQuery(query, TopologyClass(label, float(priorities[label])), names.index(operator)))
    return tuple(built)

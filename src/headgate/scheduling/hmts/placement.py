"""Where to place queues: stall-avoiding partitioning by Algorithm 1 (000 §5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.errors import SchedulingError
from headgate.scheduling.topology import Topology
from headgate.scheduling.view import View


@dataclass(frozen=True, slots=True)
class Load:
    """c(v), the mean time for an element, and d(v), the mean time between elements (inf: no elements arrive)."""

    c: float
    d: float


def capacity(members: Iterable[Load]) -> float:
    """cap(P) = d(P) − c(P), with c(P) = Σc(v) and d(P) = 1/Σ(1/d(v)) (000 §5.1.2)."""
    c = rate = 0.0
    for load in members:
        c += load.c
        rate += 1 / load.d if load.d < inf else 0.0
    return (1 / rate if rate > 0 else inf) - c


def loads(view: View) -> list[Load]:
    """c(v) and d(v) of every operator from the statistics."""
    stats = view.statistics
    return [Load(c, 1 / rate if rate > 0 else inf) for c, rate in zip(stats.cost, stats.rate, strict=True)]


class _Growing:
    """Virtual operators while they grow: the sums of c and 1/d of each."""

    def __init__(self, given: Sequence[Load]) -> None:
        self._parent = list(range(len(given)))
        self._c = [load.c for load in given]
        self._rate = [1 / load.d if load.d < inf else 0.0 for load in given]

    def root(self, operator: int) -> int:
        while self._parent[operator] != operator:
            self._parent[operator] = self._parent[self._parent[operator]]
            operator = self._parent[operator]
        return operator

    def capacity(self, *operators: int) -> float:
        roots = {self.root(o) for o in operators}
        rate = sum(self._rate[r] for r in roots)
        return (1 / rate if rate > 0 else inf) - sum(self._c[r] for r in roots)

    def cost(self, *operators: int) -> float:
        return sum(self._c[r] for r in {self.root(o) for o in operators})

    def join(self, one: int, other: int) -> None:
        a, b = self.root(one), self.root(other)
        if a != b:
            self._parent[b] = a
            self._c[a] += self._c[b]
            self._rate[a] += self._rate[b]


def place_queues(topology: Topology, given: Sequence[Load], *, margin: float = 0.0) -> Cut:
    """Algorithm 1: from the sources up, an operator is joined to its producers, most capacity first,
    while the capacity of the whole virtual operator stays at least zero; the others get a queue.

    A producer is joined with its whole virtual operator, so the constraint holds for every virtual operator
    of more than one operator. `margin` requires this much capacity, as a share of d(P).
    Streams are always queued. Visiting in topological order makes every producer's capacity final first.
    """
    if len(given) != len(topology.operators):
        raise SchedulingError(f"{len(given)} loads were given for {len(topology.operators)} operators")
    growing = _Growing(given)
    queued = {edge.id for edge in topology.edges if edge.producer is None}
    for node in topology.order:
        producers = {e: p for e in topology.inputs[node] if (p := topology.edges[e].producer) is not None}
        for edge in sorted(producers, key=lambda e: (-growing.capacity(producers[e]), e)):
            source = producers[edge]
            if growing.root(source) == growing.root(node):
                continue
            joined = growing.capacity(node, source)
            # cap(P) ≥ m·d(P), with d(P) = cap(P) + c(P).
            if joined == inf or joined >= margin * (joined + growing.cost(node, source)):
                growing.join(node, source)
        queued.update(e for e, p in producers.items() if growing.root(p) != growing.root(node))
    return Cut(frozenset(queued))


def capacities(topology: Topology, cut: Cut, given: Sequence[Load]) -> list[float]:
    """The capacity of every virtual operator of a cut: negative means it stalls, positive that it has room."""
    component_of = Units.of(topology, cut).component_of
    members: dict[int, list[Load]] = {}
    for operator, component in enumerate(component_of):
        members.setdefault(component, []).append(given[operator])
    return [capacity(found) for found in members.values()]

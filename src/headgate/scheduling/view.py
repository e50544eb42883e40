"""The view of a policy: the topology, live statistics, the queues and the results so far, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from headgate.scheduling.statistics import Statistics
from headgate.scheduling.topology import Topology


class Queues:
    """The live state of every edge's queue: `rows`, `bytes`, and `oldest` (arrival time; inf when empty).

    Lists indexed by edge id. The executor writes them before it calls the selector; a policy only reads.
    `memory` is the bytes of all queues together: a fork's shared copy counts once (001 §4).
    """

    __slots__ = ("bytes", "memory", "oldest", "rows")

    def __init__(self, edges: int) -> None:
        self.rows: list[float] = [0.0] * edges
        self.bytes: list[float] = [0.0] * edges
        self.oldest: list[float] = [inf] * edges
        self.memory = 0.0


@dataclass
class Performance:
    """Running totals of the executor's results; a learner uses the differences between two moments.

    `queued_rows` and `queued_bytes` are integrals over time (row-seconds, byte-seconds); `staleness` is that of the age
    of the oldest waiting row, taken at each refresh of the policy.
    """

    results: float = 0.0
    delay: float = 0.0
    queued_rows: float = 0.0
    queued_bytes: float = 0.0
    staleness: float = 0.0

    def copy(self) -> Performance:
        return Performance(self.results, self.delay, self.queued_rows, self.queued_bytes, self.staleness)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The cost (s) and the yield (rows, bytes freed) of one waiting row; only a simulation knows them."""

    cost: float
    rows: float
    bytes: float


class Oracle(Protocol):
    """Knows the cost of every waiting row in advance (001 §5); only a simulation has one."""

    def waiting(self, edge: int, limit: int) -> Sequence[Foreseen]:
        """Up to `limit` rows waiting on a queued edge, oldest first."""
        ...


@dataclass
class View:
    """Everything a policy may know. `oracle` is None outside a simulation.

    `delivered` returns, for each query by number, its results so far and their total delay; the executor sets it.
    """

    topology: Topology
    statistics: Statistics
    queues: Queues
    performance: Performance = field(default_factory=Performance)
    oracle: Oracle | None = None
    delivered: Callable[[], Sequence[tuple[float, float]]] = tuple

    @classmethod
    def of(cls, topology: Topology, statistics: Statistics | None = None) -> View:
        return cls(topology, statistics or Statistics(topology), Queues(len(topology.edges)))

"""What the run-time optimizer knows at a moment: the demands of queries, and the load of the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate.control.setting import Setting
from headgate.simulation.whatif import Scenario


@dataclass(frozen=True)
class Demand:
    """One query with a spec: what is allowed and what is measured.

    - `longest`, `largest`: the latency (s) and the memory (bytes) that are allowed, with the tolerance; None: no limit
    - `latency`, `memory`: what is measured; None: nothing yet
    - `accuracy`: the share of rows that must not be shed; None: none may be
    """

    query: str
    cls: str
    priority: float
    longest: float | None = None
    latency: float | None = None
    largest: float | None = None
    memory: float | None = None
    accuracy: float | None = None

    @property
    def excess(self) -> float:
        """Relative excess over the allowed latency or memory, whichever is worse; negative if both demands are met."""
        pairs = ((self.latency, self.longest), (self.memory, self.largest))
        found = [value / most - 1 for value, most in pairs if value is not None and most is not None]
        return max(found, default=-1.0)

    @property
    def missed(self) -> bool:
        return self.excess > 0


class Backlog(NamedTuple):
    """Rows that wait for an operator, and the age of the oldest of them (s)."""

    rows: float
    oldest: float


@dataclass(frozen=True)
class NetworkLoad:
    """The network with its measured figures.

    - `scenario(bundle, setting)`: the graph under a setting, where a tuple stands for `bundle` rows: rates are
      divided by `bundle`, and costs per tuple multiplied by it. Costs are those of rows that are not shed
    - `rates`: rows per second of each stream, before shedding
    - `backlog(setting)`: the rows that wait for the operators of that graph, by their names
    - `trigger`: seconds from Spark's poll of the sources to the publication of results, without the network's work
    - `held`: seconds that epochs wait for the network
    - `cores`: largest useful number of threads; `switch`: overhead of a grant in seconds
    - `alternates`: names of the alternate plans of each query
    - `replicas`: of the network, each with its own threads
    - `budgeted`: whether epochs have a budget; `threaded`: whether the number of threads can be chosen
    """

    scenario: Callable[[float, Setting], Scenario]
    rates: Mapping[str, float]
    trigger: float = 0.1
    cores: int = 1
    switch: float = 0.0
    held: float = 0.0
    backlog: Callable[[Setting], Mapping[str, Backlog]] = lambda _: {}
    alternates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    replicas: int = 1
    budgeted: bool = True
    threaded: bool = True

    def processors(self, threads: int) -> int:
        """The processors that run operators, with so many threads in each replica."""
        return max(1, min(threads, self.cores)) * self.replicas


@dataclass(frozen=True)
class Observation:
    """All demands, the classes of all queries with their priorities, and the load.

    `queries`: the attempt of each query that has not ended (`Query.attempt`), which tells a query from an earlier one
    of the same name; None: all queries stay.
    """

    now: float
    demands: Mapping[str, Demand]
    classes: Mapping[str, float]
    load: NetworkLoad
    queries: Mapping[str, int] | None = None

    @property
    def tightest(self) -> float | None:
        """The tightest latency that is allowed."""
        return min((d.longest for d in self.demands.values() if d.longest is not None), default=None)

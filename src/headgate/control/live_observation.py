"""What the run-time optimizer sees of a running engine: the verdicts on specs, and the network with live figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from headgate.control.observation import Backlog, Demand, NetworkLoad, Observation
from headgate.control.operator_figures import OperatorFigures
from headgate.control.setting import Setting
from headgate.control.shedding import shed_at
from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query
from headgate.graph.shared import SharedGraph
from headgate.runtime.handover import handover
from headgate.scheduling import Topology
from headgate.scheduling.graphs import topology_of
from headgate.scheduling.statistics import Expectation
from headgate.simulation import Constant
from headgate.simulation.whatif import Scenario, scenario

HALF_LIFE = 10.0
"""Seconds after which measured rates have forgotten half (`scheduling/statistics.py`)."""
GRANT = 1e-4
"""Overhead of a grant in seconds (`headgate bench scheduling`)."""
SHORTEST_TRIGGER = 0.02

T = TypeVar("T")

Planned = Callable[[Query, str], Query]
"""Returns a query with one of its alternate plans, given its name."""


@dataclass(frozen=True)
class LiveFigures:
    """Figures from the metrics of an engine.

    - `verdicts`: on the spec of each query (`compliance.judged`); `network`: the newest metrics of the network
    - `reserve`: see `Pace.report`; `run`: seconds that the last epoch waited for the network
    - `cores`: largest useful number of threads of a replica; `replicas`: their number
    - `budgeted`, `threaded`: see `NetworkLoad`
    - `shed`: the share of each query that was shed, averaged over time like the rates in `network` (`RecentShedding`)
    """

    now: float
    verdicts: Mapping[str, Any]
    network: Mapping[str, Any]
    reserve: float
    run: float
    cores: int
    shed: Mapping[str, float] = field(default_factory=dict)
    replicas: int = 1
    budgeted: bool = True
    threaded: bool = True


class Deferred(Mapping[str, T]):
    """A mapping that is computed when it is first read: most observations only show that all demands are met."""

    def __init__(self, compute: Callable[[], Mapping[str, T]]) -> None:
        self._compute = compute

    @cached_property
    def _found(self) -> Mapping[str, T]:
        return self._compute()

    def __getitem__(self, key: str) -> T:
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class RecentShedding:
    """The shares of rows that were shed, with an exponential decay over time as the measured rates have it.

    A rate that was measured after shedding, divided by the share that was kept on average, is the rate before shedding,
    also while the estimate still contains rows from before a change.
    """

    def __init__(self) -> None:
        self._at: float | None = None
        self._shares: dict[str, float] = {}

    def observe(self, now: float, shed: Mapping[str, float]) -> dict[str, float]:
        """Notes the shares that were in effect since the last call, and returns the averages."""
        weight = 1.0 if self._at is None else 1 - 0.5 ** (max(0.0, now - self._at) / HALF_LIFE)
        self._at = now
        for query in {*self._shares, *shed}:
            known = self._shares.get(query, 0.0)
            self._shares[query] = known + weight * (shed.get(query, 0.0) - known)
        self._shares = {query: share for query, share in self._shares.items() if share > 1e-3}
        return dict(self._shares)


def observed(
    figures: LiveFigures,
    queries: Mapping[str, Query],
    setting: Setting,
    alternates: Mapping[str, tuple[str, ...]],
    planned: Planned,
    attempts: Mapping[str, int] | None = None,
) -> Observation:
    """The present observation of the queries that run under a setting; `attempts`: see `Observation.queries`."""
    graph = LiveGraph(figures.network, queries, setting, planned, figures.shed)
    load = NetworkLoad(
        graph.scenario,
        Deferred(lambda: graph.rates),
        max(SHORTEST_TRIGGER, figures.reserve / 2 - figures.run),
        figures.cores,
        GRANT,
        figures.run,
        graph.backlog,
        alternates=Deferred(lambda: {query: names for query, names in alternates.items() if query in queries}),
        replicas=figures.replicas,
        budgeted=figures.budgeted,
        threaded=figures.threaded,
    )
    classes = {query.cls.name: float(query.cls.priority) for query in queries.values()}
    demands = {name: _demand(queries[name], v) for name, v in figures.verdicts.items() if name in queries}
    return Observation(figures.now, demands, classes, load, attempts)


def _demand(query: Query, verdict: Mapping[str, Any]) -> Demand:
    latency, memory = verdict.get("latency"), verdict.get("memory")
    return Demand(
        query.name,
        query.cls.name,
        float(query.cls.priority),
        None if latency is None else latency["allowed"],
        None if latency is None else latency["measured"],
        None if memory is None else memory["allowed"],
        None if memory is None else memory["measured"],
        query.spec.accuracy,
    )


class LiveGraph:
    """The shared graph of the running queries, with the measured figures of its operators; made when first needed."""

    def __init__(
        self,
        network: Mapping[str, Any],
        queries: Mapping[str, Query],
        setting: Setting,
        planned: Planned,
        shed: Mapping[str, float],
    ) -> None:
        self._queries = queries
        self._oldest = {name: each.get("oldest", 0.0) for name, each in network.get("queries", {}).items()}
        self._shed = shed
        self._setting = setting
        self._planned = planned
        self._graphs: list[tuple[Mapping[str, str], SharedGraph, Topology, list[int]]] = []
        self._network = network

    @cached_property
    def _figures(self) -> OperatorFigures:
        return OperatorFigures(self._network, self._graph(self._setting.plans)[0].operators.values())

    def _graph(self, plans: Mapping[str, str]) -> tuple[SharedGraph, Topology, list[int]]:
        for known, graph, topology, numbers in self._graphs:
            if known == plans:
                return graph, topology, numbers
        graph = SharedGraph()
        for name, query in self._queries.items():
            graph.add(self._planned(query, plans.get(name, "")))
        topology, numbers = topology_of(graph)
        self._graphs.append((plans, graph, topology, numbers))
        return graph, topology, numbers

    @cached_property
    def rates(self) -> dict[str, float]:
        """Rows per second of each stream, before shedding."""
        graph, topology, numbers = self._graph(self._setting.plans)
        nodes = graph.operators
        shed = shed_at(topology, self._shed)
        found = dict.fromkeys(topology.streams, 0.0)
        for edge in topology.edges:
            if edge.stream is not None:
                known = self._figures.measured(nodes[numbers[edge.consumer]])
                rate = known.get("rate", 0.0) / max(len(topology.inputs[edge.consumer]), 1)
                found[edge.stream] = max(found[edge.stream], rate / (1 - shed.get(edge.consumer, 0.0)))
        return found

    def backlog(self, setting: Setting) -> dict[str, Backlog]:
        """See `NetworkLoad`. Rows that wait in front of operators which another plan does not have go to those that
        take their place (`runtime/handover.py`).

        Rows that wait in sources for an epoch of their lane are not counted: they enter with the first epoch of a
        simulation. The metrics have the age of the oldest row by query; an operator's is that of the query that has
        waited least.
        """
        graph, topology, numbers = self._graph(setting.plans)
        nodes = graph.operators
        took_over = self._took_over(setting.plans)
        found: dict[str, Backlog] = {}
        for place, (number, name) in enumerate(zip(numbers, topology.operators, strict=True)):
            node = nodes[number]
            rows = float(self._figures.measured(took_over.get(node, node)).get("queue_rows", 0))
            if rows > 0:
                ages = [self._oldest.get(topology.queries[q].name, 0.0) for q in topology.serves[place]]
                found[name] = Backlog(rows, max(0.0, min(ages, default=0.0)))
        return found

    def _took_over(self, plans: Mapping[str, str]) -> dict[Operator, Operator]:
        """The operators of other plans that get rows which wait now, each with the one in front of which they wait."""
        present = self._setting.plans
        named = self._queries.keys() & (plans.keys() | present.keys())
        changed = [name for name in named if plans.get(name, "") != present.get(name, "")]
        found: dict[Operator, Operator] = {}
        for name in changed:
            other = self._planned(self._queries[name], plans.get(name, "")).plan
            way = handover(self._graph(present)[0], name, other)
            found.update({} if way is None else way.successors)
        return found

    def scenario(self, bundle: float, setting: Setting) -> Scenario:
        """See `NetworkLoad`."""
        graph, topology, numbers = self._graph(setting.plans)
        nodes = graph.operators
        costs: dict[str, Expectation] = {}
        for number, name in zip(numbers, topology.operators, strict=True):
            # Rows are shed before they enter the network, so these are the figures of the rows that are kept.
            usual = self._figures.expected(nodes[number])
            costs[name] = replace(usual, cost=max(usual.cost, 1e-12) * bundle)
        streams = {node.stream for node in nodes.values() if isinstance(node, Source)}
        arrivals = {stream: Constant(max(self.rates.get(stream, 0.0), 1e-9) / bundle) for stream in streams}
        return scenario(graph, arrivals, costs)

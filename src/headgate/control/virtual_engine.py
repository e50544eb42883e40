"""An engine in virtual time, for the run-time optimizer: a script changes its load, the optimizer changes its setting.

The network is a simulation over operators whose costs and rates change while it runs. Delays outside the network
(triggers, pauses, the wait for the end of an epoch) are added to latencies with the formulas that predictions use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from headgate.control.observation import Backlog, Demand, NetworkLoad, Observation
from headgate.control.prediction import period_of
from headgate.control.setting import Setting
from headgate.control.shedding import shed_at
from headgate.graph.specs import SPEC_PERCENTILE, SPEC_WINDOW, Objectives
from headgate.scheduling import Topology
from headgate.scheduling import policy as policy_of
from headgate.simulation import Model, OperatorModel, Simulation
from headgate.simulation.models import Expected, ModelState
from headgate.simulation.whatif import Scenario

_GOLDEN = 0.6180339887498949
ROW_BYTES = 100.0
LONGEST_SILENCE = 3600.0
"""Virtual seconds without a row after which a stream has ended."""

Rate = Callable[[float], float]
"""Rows per second, as a function of time (s)."""


@dataclass
class VariableOperator(Model):
    """An operator whose `cost` (s a row) and `selectivity` may change during a run."""

    cost: float
    selectivity: float = 1.0
    bytes_out: float | None = ROW_BYTES

    def expected(self, rates: object) -> Expected:
        return Expected(self.cost, self.selectivity)

    def start(self, random: Random) -> ModelState:
        return _VariableState(self)


class _VariableState(ModelState):
    def __init__(self, model: VariableOperator) -> None:
        self._model = model

    def draw(self) -> float:
        return self._model.cost

    def take(self, port: int, arrival: float, rows: float) -> tuple[float, float]:
        return 0.0, rows * self._model.selectivity


@dataclass
class _VariableArrivals:
    """Arrivals of a stream, epoch by epoch; the period of the epochs may change during the run. With `random`, the
    number of rows of an epoch has a Poisson distribution.

    A stream without rows for LONGEST_SILENCE has ended.
    """

    current: Rate
    period: Callable[[], float]
    rate: float
    random: bool

    def times(self, random: Random) -> Iterator[float]:
        now = due = last = 0.0
        while now - last <= LONGEST_SILENCE:
            period = self.period()
            expected = self.current(now) * period
            due += _poisson(random, expected) if self.random else expected
            now += period
            if due >= 1:
                last = now
            while due >= 1:
                due -= 1
                yield now


def _poisson(random: Random, mean: float) -> int:
    """A number of arrivals, counted one by one."""
    found, at = 0, random.expovariate(1.0)
    while at <= mean:
        found, at = found + 1, at + random.expovariate(1.0)
    return found


class _Result(NamedTuple):
    """A result: when it was made, how long (s) its row waited for an epoch, and how long it was in the network."""

    at: float
    waited: float
    inside: float


def _percentile(values: Iterable[float]) -> float | None:
    found = sorted(values)
    return found[min(len(found) - 1, int(SPEC_PERCENTILE * len(found)))] if found else None


@dataclass(frozen=True)
class Alternate:
    """An alternate plan of a query: the cost and selectivity of its operators."""

    figures: Mapping[str, tuple[float, float]]


@dataclass
class VirtualEngine:
    """Runs `topology` over `operators`; `demands` are those of its queries and may be changed while it runs.

    - `rates`: the rate of each stream over time; `trigger`, `cores`: see `NetworkLoad`
    - `plans`: alternate plans of queries, by their names
    """

    topology: Topology
    operators: dict[str, VariableOperator]
    rates: Mapping[str, Rate]
    demands: dict[str, Demand]
    setting: Setting = field(default_factory=Setting)
    trigger: float = 0.1
    cores: int = 2
    switch: float = 0.0
    threads_that_help: int | None = None
    """More threads than this do not help, which the optimizer does not know; None: threads help up to `cores`."""
    plans: Mapping[str, Mapping[str, Alternate]] = field(default_factory=dict)
    policy: str = ""
    """A fixed policy instead of that of the setting."""
    random_arrivals: bool = False
    """The number of rows of an epoch is random; otherwise runs with different seeds are alike."""
    seed: int = 0

    def __post_init__(self) -> None:
        self.now = 0.0
        self._written = {name: replace(model) for name, model in self.operators.items()}
        self._latencies: dict[str, deque[_Result]] = {q.name: deque() for q in self.topology.queries}
        self._read = {q.name: 0 for q in self.topology.queries}
        self._drawn = 0
        self._held = 0.0
        self._objectives: Objectives = {}
        self._shed: dict[int, float] = {}
        self._admissible = [0.0] * len(self.topology.operators)
        self._current_period = period_of(self._seen(self.demands), self.setting, self._held)
        arrivals = {
            s: _VariableArrivals(rate, self._period, max(rate(0.0), 1e-9), self.random_arrivals)
            for s, rate in self.rates.items()
        }
        self._simulation = Simulation(
            self.topology,
            self.operators,
            arrivals,
            self.policy or self.setting.policy_text(),
            statistics="measured",
            half_life=3.0,
            bytes=ROW_BYTES,
            switch=self.switch,
            seed=self.seed,
            admitted=self._admitted,
        )

    # Changes ----------------------------------------------------------------------------------------------

    def slow_down(self, operator: str, factor: float) -> None:
        """From now on an operator costs `factor` times as much."""
        self._written[operator].cost *= factor
        self._place()

    def pursue(self, objectives: Objectives) -> None:
        """Changes the objectives of the policy."""
        self._objectives = dict(objectives)
        self._simulation.scheduler.policy.pursue(self._objectives)

    def apply(self, setting: Setting) -> None:
        """Changes the setting."""
        before, self.setting = self.setting, setting
        if self.policy:
            return
        if setting.policy_text() != before.policy_text():
            scheduler = self._simulation.scheduler
            made = policy_of(setting.policy_text())
            made.continues(scheduler.policy)
            made.pursue(self._objectives)
            scheduler.replace(made, self._simulation.now)
        useful = self.cores if self.threads_that_help is None else self.threads_that_help
        self._simulation.processors = max(1, min(setting.threads, useful))
        self._place()

    def _place(self) -> None:
        """Sets cost, selectivity and shedding of all operators."""
        chosen = {
            name: figures
            for query, plan in self.setting.plans.items()
            for name, figures in self.plans[query][plan].figures.items()
        }
        self._shed = shed_at(self.topology, self.setting.shed)
        for name in self.topology.operators:
            model, written = self.operators[name], self._written[name]
            model.cost, model.selectivity = chosen.get(name, (written.cost, written.selectivity))

    def _admitted(self, operator: int) -> float:
        """1 or 0: whether a row enters at an operator that reads a stream. Rows in queues are not shed."""
        share = self._shed.get(operator)
        if share is None:
            return 1.0
        self._admissible[operator] += 1 - share
        if self._admissible[operator] < 1:
            return 0.0
        self._admissible[operator] -= 1
        return 1.0

    # Time -------------------------------------------------------------------------------------------------

    def _period(self) -> float:
        return self._current_period

    def advance(self, seconds: float = 1.0) -> None:
        """Advances virtual time."""
        self.now += seconds
        self._simulation.advance(self.now)
        period = self._period()
        for query, window in self._latencies.items():
            output = self._simulation.outputs(query)
            made, latency = output.time[self._read[query] :], output.latency[self._read[query] :]
            self._read[query] += len(made)
            for at, inside in zip(made, latency, strict=True):
                self._drawn += 1
                window.append(_Result(at, (self._drawn * _GOLDEN) % 1 * period, inside))
            while window and window[0].at < self.now - SPEC_WINDOW:
                window.popleft()
        self._held = self._highest()
        self._current_period = period_of(self._seen(self.demands), self.setting, self._held)

    def latency(self, query: str) -> float | None:
        """The latency of the results of the last SPEC_WINDOW seconds, or the age of the oldest row if higher."""
        held = self.trigger + min(self.setting.budget, self._held)
        measured = _percentile([each.waited + each.inside + held for each in self._latencies[query]])
        oldest = self._oldest(query)
        if measured is None:
            longest = self.demands[query].longest if query in self.demands else None
            return oldest if oldest > (longest or 0.0) else None
        return max(measured, oldest)

    def _highest(self) -> float:
        """The mean time that results of the highest class take inside the network."""
        first = self.topology.classes[0]
        inside = [each.inside for q in self.topology.queries if q.cls == first for each in self._latencies[q.name]]
        return sum(inside) / len(inside) if inside else 0.0

    def _oldest(self, query: str) -> float:
        topology, queues = self.topology, self._simulation.view.queues
        place = next(n for n, known in enumerate(topology.queries) if known.name == query)
        edges = (e.id for e in topology.edges if place in topology.serves[e.consumer])
        return max(0.0, self.now - min((queues.oldest[e] for e in edges), default=self.now))

    def _memory(self, query: str) -> float:
        topology, queues = self.topology, self._simulation.view.queues
        place = next(n for n, known in enumerate(topology.queries) if known.name == query)
        return sum(queues.bytes[e.id] for e in topology.edges if place in topology.serves[e.consumer])

    # What the optimizer sees --------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """All demands with their measurements, and the load."""
        return self._seen(
            {
                name: replace(demand, latency=self.latency(name), memory=self._memory(name))
                for name, demand in self.demands.items()
            }
        )

    def _seen(self, demands: Mapping[str, Demand]) -> Observation:
        classes = {cls.name: cls.priority for cls in self.topology.classes}
        return Observation(self.now, demands, classes, self._load(), {q.name: 0 for q in self.topology.queries})

    def _load(self) -> NetworkLoad:
        return NetworkLoad(
            self._scenario,
            {stream: rate(self.now) for stream, rate in self.rates.items()},
            self.trigger,
            self.cores,
            self.switch,
            self._held,
            self._backlog,
            alternates={query: tuple(plans) for query, plans in self.plans.items()},
        )

    def _backlog(self, setting: Setting) -> dict[str, Backlog]:
        """The rows that wait for each operator; the plans of a query have the same operators."""
        topology, queues = self.topology, self._simulation.view.queues
        found: dict[str, Backlog] = {}
        for number, name in enumerate(topology.operators):
            edges = topology.inputs[number]
            rows = sum(queues.rows[edge] for edge in edges)
            if rows:
                found[name] = Backlog(rows, max(0.0, self.now - min(queues.oldest[edge] for edge in edges)))
        return found

    def _scenario(self, bundle: float, setting: Setting) -> Scenario:
        """The network as measured, under another setting."""
        statistics = self._simulation.view.statistics
        other = {
            name: figures
            for query, plan in setting.plans.items()
            for name, figures in self.plans[query][plan].figures.items()
            if self.setting.plans.get(query) != plan
        }
        for query in self.setting.plans.keys() - setting.plans.keys():
            names = {name for plan in self.plans[query].values() for name in plan.figures}
            other |= {name: (self._written[name].cost, self._written[name].selectivity) for name in names}
        models: dict[str, Model] = {}
        for number, name in enumerate(self.topology.operators):
            cost, selectivity = other.get(name, (statistics.cost[number], statistics.selectivity[number]))
            models[name] = OperatorModel(max(cost, 1e-12) * bundle, selectivity, ROW_BYTES)
        return Scenario(self.topology, models, dict.fromkeys(self.topology.streams, ROW_BYTES))

"""Predicts latency and memory of each demand under another setting, by simulation with the live statistics.

A simulation begins with the rows that wait now, and gives the course of every demand: what would be measured at several
moments from now on, each over the last SPEC_WINDOW, as specs are judged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from operator import mul
from random import Random

import numpy as np

from headgate.control.observation import Backlog, Observation
from headgate.control.setting import Setting
from headgate.control.shedding import shed_at
from headgate.graph.specs import SPEC_PERCENTILE, SPEC_WINDOW
from headgate.scheduling import TopologyError
from headgate.scheduling.errors import ModelError
from headgate.simulation import Simulation
from headgate.simulation.recorder import Floats, QueryOutput
from headgate.simulation.whatif import Scenario

MOST_TUPLES = 1500
"""Most operator steps in a simulation; each tuple stands for as many rows as needed to stay below that."""
SHORTEST = 3 * SPEC_WINDOW
LONGEST = 120.0
"""The least and the most virtual seconds of a simulation. In between, it lasts two windows, and twice as long as the
backlog of the demands needs under the best setting; and at least EPOCHS epochs."""
EPOCHS = 6
MOMENTS = 12
"""Number of moments of a course; the queues are looked at LOOKS times as often."""
LOOKS = 5
INTERVALS = 15
"""Most selections of AMoS in a class during a simulation: their cost must not grow with the virtual time."""
PAUSE_WITHOUT_SPEC = 0.3
"""Approximate pause (s) between epochs without a latency spec."""
MAX_CORRECTION = 1.5
"""The ratio of measured to predicted values is clipped to this factor and its inverse."""
STEADY = 1.25
"""The ratio counts only while both the measured values of the last window and those predicted for the present setting
change by less than this factor: otherwise they belong to different times, and the ratio says nothing of the model."""
GROWTH = 0.02
"""A demand that grows by more than this share of what is allowed over half a simulation is expected to go on growing
for as long again: an overload, however slight."""
WAITS = (np.arange(5) + 0.5) / 5
"""Parts of a period for which rows wait for the next epoch: they arrive evenly."""


@dataclass
class EpochPeriod:
    """The seconds between two epochs, which change during a simulation, as they depend on how long epochs take."""

    period: float


@dataclass(frozen=True)
class EpochArrivals:
    """Arrivals of a stream, epoch by epoch: all rows of a period arrive together. A stream without rows has none."""

    rate: float
    epochs: EpochPeriod

    def times(self, random: Random) -> Iterator[float]:
        due, now = 0.0, 0.0
        while self.rate > 0:
            while due >= 1:
                due -= 1
                yield now
            # A stream may be silent for very many epochs.
            period = self.epochs.period
            number = max(1, ceil((1 - due) / (self.rate * period)))
            now += number * period
            due += number * self.rate * period


@dataclass(frozen=True)
class Prediction:
    """What would be measured of each demand at some moments (s from now): its latency (s), and the bytes that wait."""

    times: tuple[float, ...]
    latency: Mapping[str, Sequence[float]]
    memory: Mapping[str, Sequence[float]]


NOTHING = Prediction((), {}, {})
"""The prediction for a graph that cannot be modelled."""


@dataclass(frozen=True)
class Course:
    """The predicted excess of each demand (see `Demand.excess`) at some moments (s from now)."""

    times: tuple[float, ...]
    excess: Mapping[str, Sequence[float]]

    def at(self, seconds: float) -> dict[str, float]:
        """The excess after some seconds; infinite if nothing is predicted."""
        return {
            query: float(np.interp(seconds, self.times, values)) if values else inf
            for query, values in self.excess.items()
        }

    @property
    def lasting(self) -> dict[str, float]:
        """The mean excess over the last quarter. If it grows, it is assumed to grow for half as long again."""
        found: dict[str, float] = {}
        quarter = MOMENTS // 4
        for query, values in self.excess.items():
            if not values or max(values) == inf:
                found[query] = inf
                continue
            last, before = (sum(part) / quarter for part in (values[-quarter:], values[-2 * quarter : -quarter]))
            found[query] = last + (2 * (last - before) if 2 * (last - before) > GROWTH else 0.0)
        return found

    def met_after(self, limits: Mapping[str, float]) -> float:
        """The seconds after which all demands are met; infinite if their lasting excess is not within the limits."""
        if any(value > limits[query] for query, value in self.lasting.items()):
            return inf
        for place in reversed(range(len(self.times))):
            if any(values[place] > max(0.0, limits[query]) for query, values in self.excess.items()):
                return self.times[min(place + 1, len(self.times) - 1)]
        return 0.0


def period_of(seen: Observation, setting: Setting, held: float) -> float:
    """Seconds between two epochs (see `spark/pace.py`); `held`: the seconds that they would wait without a budget."""
    epoch = seen.load.trigger + min(held, setting.budget)
    if seen.tightest is None:
        return epoch + PAUSE_WITHOUT_SPEC
    return epoch + max(0.0, setting.aim * seen.tightest - 2 * epoch)


def offered_work(
    scenario: Scenario, rates: Mapping[str, float], shed: Mapping[str, float], backlog: Mapping[str, Backlog]
) -> tuple[float, float]:
    """The work of all operators that serve the queries of `shed`: seconds per second, and seconds that wait now.

    `shed`: the share of the rows of a query that is dropped.
    """
    topology = scenario.topology
    wanted = {place for place, query in enumerate(topology.queries) if query.name in shed}
    dropped = shed_at(topology, shed)
    made = [0.0] * len(topology.operators)
    costs = [0.0] * len(topology.operators)
    shares = [0.0] * len(topology.operators)
    load = waiting = 0.0
    for operator in topology.order:
        edges = [topology.edges[e] for e in topology.inputs[operator]]
        arriving = [rates.get(e.stream or "", 0.0) if e.producer is None else made[e.producer] for e in edges]
        found = scenario.models[topology.operators[operator]].expected(arriving)
        rate = sum(arriving) * (1 - dropped.get(operator, 0.0))
        made[operator] = rate * found.selectivity
        if wanted.intersection(topology.serves[operator]):
            costs[operator], shares[operator] = found.cost, found.selectivity
            load += rate * found.cost
    for operator in reversed(topology.order):
        below = sum(costs[topology.edges[edge].consumer] for edge in topology.outputs[operator])
        costs[operator] += shares[operator] * below
        known = backlog.get(topology.operators[operator])
        waiting += 0.0 if known is None else known.rows * costs[operator]
    return load, waiting


def horizon(seen: Observation, setting: Setting) -> float:
    """The virtual seconds that a simulation takes: as long as a setting that suffices needs to process the backlog.

    All settings are simulated for the same time, so that they can be compared.
    """
    load = seen.load
    most = {
        name: 1 - (1.0 if demand.accuracy is None else demand.accuracy)
        for name, demand in seen.demands.items()
        if demand.longest is not None or demand.largest is not None
    }
    offered, waiting = offered_work(load.scenario(1.0, setting), load.rates, most, load.backlog(setting))
    spare = max(load.processors(load.cores) - offered, 1e-6)
    return min(LONGEST, max(SHORTEST, 2 * SPEC_WINDOW + 2 * waiting / spare))


def predicted(seen: Observation, setting: Setting, seconds: float) -> Prediction:
    """Predicts the measurements under a setting for some virtual seconds, if the load stays as it is."""
    load = seen.load
    epochs = EpochPeriod(period_of(seen, setting, load.held))
    seconds = max(seconds, EPOCHS * epochs.period)
    backlog = load.backlog(setting)
    bundle = _bundle(load.scenario(1.0, setting), seen, setting, backlog, seconds)
    scenario = load.scenario(bundle, setting)
    topology = scenario.topology
    arrivals = {stream: EpochArrivals(rate / bundle, epochs) for stream, rate in load.rates.items()}
    shed = shed_at(topology, setting.shed)
    simulation = Simulation(
        topology,
        scenario.models,
        arrivals,
        setting.policy_text(f"auto:interval={max(1.0, seconds / INTERVALS):.3g}s"),
        tuples="fractional",
        processors=load.processors(setting.threads),
        bytes={stream: size * bundle for stream, size in scenario.bytes.items()},
        switch=load.switch,
        until=seconds,
        admitted=(lambda operator: 1 - shed.get(operator, 0.0)) if shed else None,
    )
    for name, waiting in backlog.items():
        if waiting.rows > 0 and name in topology.operators:
            simulation.preload(name, waiting.rows / bundle, waiting.oldest, max(1, round(waiting.rows / bundle)))
    return _run(simulation, seen, setting, seconds, epochs)


def _bundle(
    plain: Scenario, seen: Observation, setting: Setting, backlog: Mapping[str, Backlog], seconds: float
) -> float:
    """The rows that a tuple stands for: the operator steps that there is time for stay below MOST_TUPLES."""
    rates = seen.load.rates
    shed = {query.name: setting.shed.get(query.name, 0.0) for query in plain.topology.queries}
    offered, waiting = offered_work(plain, rates, shed, backlog)
    time = seconds * seen.load.processors(setting.threads)
    rows = sum(rates.values()) * seconds + sum(each.rows for each in backlog.values())
    steps = rows * max(1, len(plain.topology.operators) // max(1, len(rates)))
    done = min(1.0, time / max(offered * seconds + waiting, 1e-9))
    return max(1.0, steps * done / MOST_TUPLES, rows / (2 * MOST_TUPLES))


def _run(
    simulation: Simulation, seen: Observation, setting: Setting, seconds: float, epochs: EpochPeriod
) -> Prediction:
    topology, queues = simulation.topology, simulation.view.queues
    demands = [place for place, query in enumerate(topology.queries) if query.name in seen.demands]
    edges = {q: [e.id for e in topology.edges if q in topology.serves[e.consumer]] for q in demands}
    times = tuple(seconds * (number + 1) / MOMENTS for number in range(MOMENTS))
    oldest: dict[int, list[float]] = {q: [] for q in demands}
    memory: dict[int, list[float]] = {q: [] for q in demands}
    highest = [query.name for query in topology.queries if query.cls == topology.classes[0]]
    held, outside, periods = seen.load.held, [], []
    for look in range(1, MOMENTS * LOOKS + 1):
        now = seconds * look / (MOMENTS * LOOKS)
        simulation.advance(now)
        means = [mean for name in highest if (mean := _recent_mean(simulation.outputs(name), now)) is not None]
        # An epoch ends when the highest class has its results, or the budget is spent; all results wait for that.
        held = max(means, default=held)
        epochs.period = period_of(seen, setting, held)
        if look % LOOKS == 0:
            periods.append(epochs.period)
            outside.append(seen.load.trigger + min(setting.budget, held))
        for q in demands:
            memory[q].append(sum([queues.bytes[e] for e in edges[q]]))
            if look % LOOKS == 0:
                oldest[q].append(max(0.0, now - min([queues.oldest[e] for e in edges[q]], default=now)))
    latency: dict[str, list[float]] = {}
    span = max(1, round(SPEC_WINDOW * MOMENTS * LOOKS / seconds))
    for q in demands:
        name = topology.queries[q].name
        windows = _windows(simulation.outputs(name), times)
        latency[name] = [
            max(aged, _percentile(*found, period) + extra if len(found[0]) else 0.0)
            for found, aged, extra, period in zip(windows, oldest[q], outside, periods, strict=True)
        ]
    return Prediction(
        times,
        latency,
        {topology.queries[q].name: [max(memory[q][max(0, end - span) : end]) for end in _ends()] for q in demands},
    )


def _ends() -> range:
    return range(LOOKS, MOMENTS * LOOKS + 1, LOOKS)


def _windows(output: QueryOutput, times: Sequence[float]) -> list[tuple[Floats, Floats]]:
    """Latencies and numbers of the results in the window before each moment."""
    made, seconds, rows = (np.array(each) for each in (output.time, output.latency, output.rows))
    chosen = [(made > at - SPEC_WINDOW) & (made <= at) for at in times]
    return [(seconds[each], rows[each]) for each in chosen]


def _recent_mean(output: QueryOutput, now: float) -> float | None:
    """The mean latency of the results of the last SPEC_WINDOW; None if there are none."""
    place = bisect_right(output.time, now - SPEC_WINDOW)
    latency, rows = output.latency[place:], output.rows[place:]
    return sum(map(mul, latency, rows)) / sum(rows) if rows else None


def _percentile(seconds: Floats, rows: Floats, period: float) -> float:
    """The latency at SPEC_PERCENTILE, with the time for which each row waited for its epoch."""
    whole = (seconds[:, None] + WAITS[None, :] * period).ravel()
    order = np.argsort(whole)
    reached = np.cumsum(np.repeat(rows, len(WAITS))[order])
    return float(whole[order][min(len(whole) - 1, int(np.searchsorted(reached, reached[-1] * SPEC_PERCENTILE)))])


class Predictor:
    """Predictions for one observation, cached by setting, scaled by the measurements under the present setting.

    - `seconds`: the least virtual time of a simulation
    - `steady`: the demands whose measured values have been steady for SPEC_WINDOW
    """

    def __init__(self, seen: Observation, setting: Setting, seconds: float = 0.0, steady: Collection[str] = ()) -> None:
        self._seen = seen
        self._steady = steady
        self._present = setting
        self._known: list[tuple[Setting, Prediction]] = []
        try:
            self.seconds = max(seconds, horizon(seen, setting))
        except (ModelError, TopologyError):
            self.seconds = SHORTEST
        self._now = self._simulated(setting)

    def course(self, setting: Setting) -> Course:
        """The predicted course of all demands under a setting."""
        prediction = self._simulated(setting)
        return Course(prediction.times, {query: self._of(query, prediction) for query in self._seen.demands})

    def latency(self, setting: Setting, query: str) -> float:
        """The lowest latency of a query (s) in its course under a setting."""
        prediction = self._simulated(setting)
        correction = self._correction(query, self._seen.demands[query].latency, self._now.latency.get(query, ()))
        return correction * min(prediction.latency.get(query, ()), default=inf)

    def memory(self, setting: Setting, query: str) -> float:
        """The least memory of a query (bytes) in its course under a setting."""
        prediction = self._simulated(setting)
        correction = self._correction(query, self._seen.demands[query].memory, self._now.memory.get(query, ()))
        return correction * min(prediction.memory.get(query, ()), default=inf)

    def _simulated(self, setting: Setting) -> Prediction:
        for known, found in self._known:
            if known == setting:
                return found
        try:
            made = predicted(self._seen, setting, self.seconds)
        except (ModelError, TopologyError):
            # The graph cannot be modelled: no step is predicted to help.
            made = NOTHING
        self._known.append((setting, made))
        return made

    def _of(self, query: str, prediction: Prediction) -> list[float]:
        demand = self._seen.demands[query]
        found = [-1.0] * len(prediction.times)
        for most, measured, now, then in (
            (demand.longest, demand.latency, self._now.latency, prediction.latency),
            (demand.largest, demand.memory, self._now.memory, prediction.memory),
        ):
            if most is not None:
                scale = self._correction(query, measured, now.get(query, ())) / most
                values = then.get(query, [inf] * len(found))
                found = [max(worst, value * scale - 1) for worst, value in zip(found, values, strict=True)]
        return found

    def _correction(self, query: str, measured: float | None, now: Sequence[float]) -> float:
        """The ratio of the measured value to the one predicted for the present setting, while that is steady."""
        if query not in self._steady or measured is None or not now or not measured > 0:
            return 1.0
        first = next(value for value, at in zip(now, self._now.times, strict=True) if at >= SPEC_WINDOW)
        if not 0 < max(first, now[-1]) < STEADY * min(first, now[-1]):
            return 1.0
        return min(MAX_CORRECTION, max(1 / MAX_CORRECTION, measured / first))


def work(seen: Observation, setting: Setting) -> float:
    """The work that the rows of all streams make without shedding (s per second)."""
    scenario = seen.load.scenario(1.0, replace(setting, shed={}))
    return offered_work(scenario, seen.load.rates, {q.name: 0.0 for q in scenario.topology.queries}, {})[0]

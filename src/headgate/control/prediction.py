"""Predicts latency and memory of each demand under another setting, by simulation with the live statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf, isnan
from random import Random

from headgate.control.observation import Observation
from headgate.control.setting import Setting
from headgate.graph.specs import SPEC_PERCENTILE
from headgate.scheduling import TopologyError
from headgate.scheduling.errors import ModelError
from headgate.simulation import Simulation

MOST_TUPLES = 1500
"""Most operator steps in a simulation; each tuple stands for as many rows as needed to stay below that."""
SECONDS = 15.0
"""Virtual seconds of a simulation; at least EPOCHS epochs."""
EPOCHS = 6
PAUSE_WITHOUT_SPEC = 0.3
"""Approximate pause (s) between epochs without a latency spec."""
MAX_CORRECTION = 1.5
"""The ratio of measured to predicted values is clipped to this factor and its inverse: while a backlog is processed,
measurements say little about the setting."""


@dataclass(frozen=True)
class EpochArrivals:
    """Arrivals of a stream, epoch by epoch: all rows of a period arrive together."""

    rate: float
    period: float

    def times(self, random: Random) -> Iterator[float]:
        due, number = 0.0, 0
        each = self.rate * self.period
        while True:
            while due >= 1:
                due -= 1
                yield number * self.period
            # A stream may be silent for very many epochs.
            epochs = max(1, ceil((1 - due) / each))
            number += epochs
            due += epochs * each


@dataclass(frozen=True)
class Prediction:
    """Latency (s, at SPEC_PERCENTILE) of each query, and the peak bytes in all queues."""

    latency: Mapping[str, float]
    memory: float


def period_of(seen: Observation, setting: Setting) -> float:
    """Seconds between two epochs (see `spark/pace.py`)."""
    epoch = seen.load.trigger + min(seen.load.held, setting.budget)
    if seen.tightest is None:
        return epoch + PAUSE_WITHOUT_SPEC
    return epoch + max(0.0, setting.aim * seen.tightest - 2 * epoch)


def predicted(seen: Observation, setting: Setting) -> Prediction:
    """Predicts the measurements under a setting, if the load stays as it is."""
    load = seen.load
    period = period_of(seen, setting)
    seconds = max(SECONDS, EPOCHS * period)
    plain = load.scenario(1.0, setting)
    work = sum(load.rates.values()) * seconds * max(1, len(plain.topology.operators) // max(1, len(load.rates)))
    bundle = max(1.0, work / MOST_TUPLES)
    scenario = load.scenario(bundle, setting)
    arrivals = {stream: EpochArrivals(max(rate, 1e-9) / bundle, period) for stream, rate in load.rates.items()}
    result = Simulation(
        scenario.topology,
        scenario.models,
        arrivals,
        setting.policy_text(),
        processors=max(1, min(setting.threads, load.cores)),
        bytes={stream: size * bundle for stream, size in scenario.bytes.items()},
        switch=load.switch,
        until=seconds,
    ).run()
    waits = SPEC_PERCENTILE * period + load.trigger
    inside = {query.name: result.latency(query.name) for query in scenario.topology.queries}
    first = [q.name for q in scenario.topology.queries if q.cls == scenario.topology.classes[0]]
    # An epoch ends when the highest class has its results, or the budget is spent; all results wait for that.
    held = min(setting.budget, max((inside[name].mean for name in first if inside[name].count), default=0.0))
    latency = {
        name: inf if isnan(found.mean) else found.percentile(100 * SPEC_PERCENTILE) + waits + held
        for name, found in inside.items()
    }
    return Prediction(latency, result.peak_bytes)


class Predictor:
    """Predictions for one observation, cached by setting, scaled by the measurements under the present setting."""

    def __init__(self, seen: Observation, setting: Setting) -> None:
        self._seen = seen
        self._known: list[tuple[Setting, Mapping[str, float]]] = []
        self._now = self._simulated(setting)
        self._present = setting

    def excess(self, setting: Setting) -> dict[str, float]:
        """The predicted excess of each demand under a setting (see `Demand.excess`)."""
        for known, found in self._known:
            if known == setting:
                return dict(found)
        prediction = self._now if setting == self._present else self._simulated(setting)
        found = {query: self._of(query, prediction) for query in self._seen.demands}
        self._known.append((setting, found))
        return found

    def latency(self, setting: Setting, query: str) -> float:
        """The predicted latency of a query (s)."""
        demand = self._seen.demands[query]
        prediction = self._now if setting == self._present else self._simulated(setting)
        return self._scaled(demand.latency, self._now.latency.get(query, inf), prediction.latency.get(query, inf))

    def _simulated(self, setting: Setting) -> Prediction:
        try:
            return predicted(self._seen, setting)
        except (ModelError, TopologyError):
            # The graph cannot be modelled: no step is predicted to help.
            return Prediction({}, inf)

    def _of(self, query: str, prediction: Prediction) -> float:
        demand = self._seen.demands[query]
        found = [-1.0]
        if demand.longest is not None:
            now, then = self._now.latency.get(query, inf), prediction.latency.get(query, inf)
            found.append(self._scaled(demand.latency, now, then) / demand.longest - 1)
        if demand.largest is not None and demand.memory is not None:
            found.append(self._scaled(demand.memory, self._now.memory, prediction.memory) / demand.largest - 1)
        return max(found)

    @staticmethod
    def _scaled(measured: float | None, now: float, then: float) -> float:
        """Scales the prediction `then` by the ratio of the measured value to the prediction `now` for the present."""
        if measured is None or not 0 < now < inf:
            return then
        return then * min(MAX_CORRECTION, max(1 / MAX_CORRECTION, measured / now))

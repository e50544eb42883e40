"""The result of a simulation, in the measures that the papers use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.scheduling.errors import SchedulingError, closest
from headgate.scheduling.topology import Topology
from headgate.simulation.recorder import Floats, Levels, QueryOutput


@dataclass(frozen=True)
class LatencyDistribution:
    """Latencies of results in seconds, weighted by rows (possibly fractions of a row)."""

    seconds: Floats
    rows: Floats

    @property
    def count(self) -> float:
        return float(self.rows.sum())

    @property
    def mean(self) -> float:
        """NaN if there are no results."""
        return float(np.average(self.seconds, weights=self.rows)) if len(self.rows) else float("nan")

    @property
    def total(self) -> float:
        return float((self.seconds * self.rows).sum())

    @property
    def max(self) -> float:
        return float(self.seconds.max()) if len(self.rows) else float("nan")

    def percentile(self, percent: float) -> float:
        """The smallest latency that `percent` % of the result rows do not exceed."""
        if not len(self.rows):
            return float("nan")
        order = np.argsort(self.seconds, kind="stable")
        reached = np.cumsum(self.rows[order])
        place = np.searchsorted(reached, reached[-1] * percent / 100 - 1e-12)
        return float(self.seconds[order][min(int(place), len(order) - 1)])


@dataclass(frozen=True)
class SimulationResult:
    """All measurements of one run. Times are virtual seconds.

    `processed`: rows by operator; `unprocessed`: rows left in the queues, by edge; `accepted`: times at which
    the rows of a stream were taken; `changes`: (time, policy) at each change of the units.
    """

    topology: Topology
    end: float
    busy: float
    idle: float
    decisions: int
    processed: Mapping[str, float]
    unprocessed: Mapping[int, float]
    outputs: Sequence[QueryOutput]
    accepted: Mapping[str, Floats]
    levels: Levels
    changes: Sequence[tuple[float, str]]

    def latency(self, query: str | Iterable[str] | None = None, *, cls: str | None = None) -> LatencyDistribution:
        """Latency of one query, of several, of a class, or (without arguments) of all."""
        chosen = self._chosen(query, cls)
        seconds = [np.frombuffer(self.outputs[q].latency) for q in chosen]
        rows = [np.frombuffer(self.outputs[q].rows) for q in chosen]
        if not chosen:
            return LatencyDistribution(np.zeros(0), np.zeros(0))
        return LatencyDistribution(np.concatenate(seconds), np.concatenate(rows))

    def results(self, query: str | None = None, *, cls: str | None = None) -> tuple[Floats, Floats]:
        """Times of the results in order, and the cumulative number of rows delivered."""
        chosen = self._chosen(query, cls)
        times = np.concatenate([np.frombuffer(self.outputs[q].time) for q in chosen])
        rows = np.concatenate([np.frombuffer(self.outputs[q].rows) for q in chosen])
        order = np.argsort(times, kind="stable")
        return times[order], np.cumsum(rows[order])

    def throughput(self, every: float = 1.0, query: str | None = None, *, cls: str | None = None) -> Floats:
        """Result rows in each interval of `every` seconds from 0 to the end."""
        chosen = self._chosen(query, cls)
        times = np.concatenate([np.frombuffer(self.outputs[q].time) for q in chosen])
        rows = np.concatenate([np.frombuffer(self.outputs[q].rows) for q in chosen])
        return _per_interval(times, rows, every, self.end)

    def input_rate(self, stream: str, every: float = 1.0) -> Floats:
        """Rows per second accepted from the stream in each interval (a source whose own thread runs the operators
        slows down, 000 §6.3)."""
        if stream not in self.accepted:
            raise SchedulingError(f"unknown stream '{stream}'; {closest(stream, self.accepted)}")
        times = self.accepted[stream]
        return _per_interval(times, np.ones(len(times)), every, self.end) / every

    @property
    def mean_rows(self) -> float:
        """Mean number of rows in the queues over time."""
        return self.levels.area()[0] / self.end if self.end else 0.0

    @property
    def mean_bytes(self) -> float:
        return self.levels.area()[1] / self.end if self.end else 0.0

    @property
    def peak_rows(self) -> float:
        return self.levels.peak()[0]

    @property
    def peak_bytes(self) -> float:
        return self.levels.peak()[1]

    @property
    def row_seconds(self) -> float:
        return self.levels.area()[0]

    @property
    def byte_seconds(self) -> float:
        """The area under the memory curve (the cost of 001's memory charts)."""
        return self.levels.area()[1]

    def queue_series(self) -> tuple[Floats, Floats, Floats]:
        """Times, rows and bytes in the queues, at the simulation's `resolution`."""
        samples = self.levels.samples()
        times = np.arange(len(samples), dtype=np.float64) * self.levels.resolution
        return times, samples[:, 0], samples[:, 1]

    def _chosen(self, query: str | Iterable[str] | None, cls: str | None) -> list[int]:
        known = {q.name: number for number, q in enumerate(self.topology.queries)}
        if cls is not None:
            names = {c.name for c in self.topology.classes}
            if cls not in names:
                raise SchedulingError(f"unknown class '{cls}'; {closest(cls, names)}")
            return [n for n, q in enumerate(self.topology.queries) if q.cls.name == cls]
        if query is None:
            return list(known.values())
        wanted = [query] if isinstance(query, str) else list(query)
        for name in wanted:
            if name not in known:
                raise SchedulingError(f"unknown query '{name}'; {closest(name, known)}")
        return [known[name] for name in wanted]


def _per_interval(times: Floats, rows: Floats, every: float, end: float) -> Floats:
    if not every > 0:
        raise SchedulingError(f"an interval of {every} s is not above zero")
    count = max(int(np.ceil(end / every - 1e-9)), 1)
    # An event exactly at the end of an interval belongs to it.
    place = np.clip(np.ceil(times / every - 1e-9).astype(int) - 1, 0, count - 1)
    return np.bincount(place, weights=rows, minlength=count).astype(np.float64)

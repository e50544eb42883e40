"""Cost, selectivity, row size and arrival rate of every operator: measured continuously, with exponential decay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.graph.operators import KINDS
from headgate.scheduling.errors import SchedulingError
from headgate.scheduling.topology import Topology

SMALLEST_COST = 1e-12


@dataclass(frozen=True, slots=True)
class Expectation:
    """The assumed cost, selectivity and row sizes of an operator before anything is measured."""

    cost: float
    selectivity: float
    bytes_in: float = 100.0
    bytes_out: float = 100.0


# Seconds per row of vectorized operators, by order of magnitude; measurements soon replace them.
DEFAULTS: Mapping[str, Expectation] = {
    **{kind: Expectation(operator.cost, operator.selectivity) for kind, operator in KINDS.items()},
    "udf": Expectation(1e-5, 1.0),
}


class Statistics:
    """Per operator: cost (s/row), selectivity, bytes per row in and out, arrival rate (rows/s).

    Read the lists directly (`cost[o]`, …). One thread writes: `observe` and `arrive` add measurements,
    then `update(now)` turns the decayed sums into estimates. A new operator starts from its kind's default,
    which counts as `prior` rows and fades with the first measurements.
    """

    def __init__(self, topology: Topology, *, half_life: float = 10.0, prior: float = 1.0) -> None:
        if not half_life > 0:
            raise SchedulingError(f"half_life is {half_life}; give seconds above zero")
        known = [DEFAULTS.get(kind, DEFAULTS["select"]) for kind in topology.kinds]
        self.half_life = half_life
        self.frozen = False
        """If true, measurements no longer change the estimates."""
        self.cost = [k.cost for k in known]
        self.selectivity = [k.selectivity for k in known]
        self.bytes_in = [k.bytes_in for k in known]
        self.bytes_out = [k.bytes_out for k in known]
        self.rate = [0.0] * len(known)
        self._rows_in = [prior] * len(known)
        self._rows_out = [prior * k.selectivity for k in known]
        self._seconds = [prior * k.cost for k in known]
        self._bytes_in = [prior * k.bytes_in for k in known]
        self._bytes_out = [prior * k.selectivity * k.bytes_out for k in known]
        self._arrived = [0.0] * len(known)
        self._updated = 0.0
        # The decayed length of the time observed: what `_arrived` is divided by.
        self._measured_time = 0.0

    def expect(
        self,
        operator: int,
        *,
        cost: float,
        selectivity: float,
        bytes_in: float = 100.0,
        bytes_out: float = 100.0,
        rate: float = 0.0,
    ) -> None:
        """Set an operator's figures (from a model, or from an earlier run)."""
        if not cost > 0:
            raise SchedulingError(f"operator {operator} has cost {cost}; give seconds per row above zero")
        if selectivity < 0 or bytes_in < 0 or bytes_out < 0 or rate < 0:
            raise SchedulingError(f"operator {operator} has a negative selectivity, size or rate; give zero or more")
        self.cost[operator] = cost
        self.selectivity[operator] = selectivity
        self.bytes_in[operator] = bytes_in
        self.bytes_out[operator] = bytes_out
        self.rate[operator] = rate
        self._rows_in[operator] = 1.0
        self._rows_out[operator] = selectivity
        self._seconds[operator] = cost
        self._bytes_in[operator] = bytes_in
        self._bytes_out[operator] = selectivity * bytes_out

    def observe(
        self,
        operator: int,
        rows_in: float,
        rows_out: float,
        seconds: float,
        bytes_in: float,
        bytes_out: float,
    ) -> None:
        """Add the measurements of one run of an operator."""
        self._rows_in[operator] += rows_in
        self._rows_out[operator] += rows_out
        self._seconds[operator] += seconds
        self._bytes_in[operator] += bytes_in
        self._bytes_out[operator] += bytes_out

    def arrive(self, operator: int, rows: float) -> None:
        """Add rows that reached an operator's inputs, processed or still waiting."""
        self._arrived[operator] += rows

    def update(self, now: float) -> None:
        """Recompute the estimates, then decay the sums behind them by the time since the last update."""
        elapsed = now - self._updated
        if elapsed <= 0 or self.frozen:
            return
        self._updated = now
        self._measured_time += elapsed
        fade = 0.5 ** (elapsed / self.half_life)
        for o, rows in enumerate(self._rows_in):
            if rows > 0:
                self.cost[o] = max(self._seconds[o] / rows, SMALLEST_COST)
                self.selectivity[o] = self._rows_out[o] / rows
                self.bytes_in[o] = self._bytes_in[o] / rows
            if self._rows_out[o] > 0:
                self.bytes_out[o] = self._bytes_out[o] / self._rows_out[o]
            self.rate[o] = self._arrived[o] / self._measured_time
            self._rows_in[o] *= fade
            self._rows_out[o] *= fade
            self._seconds[o] *= fade
            self._bytes_in[o] *= fade
            self._bytes_out[o] *= fade
            self._arrived[o] *= fade
        self._measured_time *= fade

"""How many rows of a replica have the keys of each slot, estimated from samples of what enters its network."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.operators.batch import Arrival, Batch
from headgate.operators.evaluate import evaluate
from headgate.spark.key_slots import slots
from headgate.spark.placement import Route

EVERY, SAMPLE = 16_384, 1024
"""Of so many rows of a route, at most so many are counted."""

Counts = dict[str, list[float]]
"""Rows of each key slot by the local name of their stream (`Route.local`)."""


class KeyLoad:
    """Counts rows since its creation. Used by one thread at a time.

    - `routes`: those by key, by the local names of their streams; `count`: the number of key slots
    """

    def __init__(self, routes: dict[str, Route], count: int) -> None:
        self.routes = routes
        self._count = count
        self._random = np.random.default_rng(0)
        self._rows: dict[str, npt.NDArray[np.float64]] = {}
        self._passed: dict[str, int] = {}

    def add(self, name: str, rows: pa.RecordBatch) -> None:
        """Rows enter the network under a local name."""
        route = self.routes.get(name)
        if route is None or not rows.num_rows:
            return
        passed = self._passed.get(name, 0) + rows.num_rows
        known = self._rows.get(name)
        if known is None:
            known = self._rows[name] = np.zeros(self._count)
        elif passed < EVERY:
            self._passed[name] = passed
            return
        self._passed[name] = 0
        if rows.num_rows > SAMPLE:
            rows = rows.take(pa.array(self._random.integers(0, rows.num_rows, SAMPLE)))
        batch = Batch(rows, Arrival.at(0.0, rows.num_rows))
        keys = [evaluate(key, batch) for key in route.keys]
        known += np.bincount(slots(name, keys, self._count), minlength=self._count) * (passed / rows.num_rows)

    @property
    def counts(self) -> Counts:
        """The rows so far, about."""
        return {name: np.round(rows, 1).tolist() for name, rows in self._rows.items()}

"""The load that replicas have under a placement, by measured costs, and the key slots to move so that it is even."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from headgate.spark.placement import Placement

Floats = npt.NDArray[np.float64]
KeyRows = Mapping[str, Sequence[float]]
"""Rows of each key slot by the local name of their stream."""

_EVEN = 0.005
"""A difference of two replicas, as a share of the mean load, that is not worth another slot."""


class MeasuredLoad:
    """Work per second (s), as measured: `costs` by query, `rows` by the slots of their keys.

    A query costs the same for every row of its routes. If no rows of them are known, its work is spread evenly.
    """

    def __init__(self, placement: Placement, costs: Mapping[str, float], rows: KeyRows) -> None:
        self.placement = placement
        count = len(placement.table)
        known = {name: np.asarray(each) for name, each in rows.items() if len(each) == count}
        self._slots = np.zeros(count)
        self._fixed = np.zeros(placement.replicas)
        for query, routes in placement.routes.items():
            cost = costs.get(query, 0.0)
            home = placement.replica_of(query)
            found = np.zeros(count)
            for stream, route in routes.items():
                found += known.get(route.local(stream), 0.0) if route.kind == "key" else 0.0
            if home is not None:
                self._fixed[home] += cost
            elif found.any():
                self._slots += cost * found / found.sum()
            else:
                self._fixed += cost / placement.replicas

    @property
    def replicas(self) -> Floats:
        """The work of each replica."""
        return self._under(np.array(self.placement.table))

    @property
    def busiest(self) -> float:
        """The work of the busiest replica."""
        return float(self.replicas.max())

    @property
    def mean(self) -> float:
        """The work of a replica on average."""
        return float(self.replicas.mean())

    def with_owners(self, owners: tuple[int, ...]) -> MeasuredLoad:
        """The load if other replicas own the keys."""
        found = copy(self)
        found.placement = replace(self.placement, owners=owners)
        return found

    def levelled(self) -> tuple[int, ...]:
        """Owners of the key slots: slots are moved from the busiest replica to the least busy one, one by one, as long
        as that helps. Each is the one that leaves the least difference, so that few slots move."""
        table = np.array(self.placement.table)
        for _ in range(len(table)):
            loads = self._under(table)
            high, low = int(loads.argmax()), int(loads.argmin())
            gap = loads[high] - loads[low]
            own = np.flatnonzero((table == high) & (self._slots > 0.0) & (self._slots < gap))
            if gap <= _EVEN * loads.mean() or not len(own):
                break
            table[own[np.abs(self._slots[own] - gap / 2).argmin()]] = low
        found = tuple(table.tolist())
        return self.placement.owners if found == self.placement.table else found

    def _under(self, table: npt.NDArray[np.int64]) -> Floats:
        return self._fixed + np.bincount(table, self._slots, self.placement.replicas)

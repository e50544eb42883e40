"""Demands that no setting is predicted to meet, with the best that is reachable: they must not hold up the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

from headgate.control.observation import Demand, Observation
from headgate.control.prediction import Predictor
from headgate.control.setting import Setting
from headgate.control.steps import extreme

VALID_FOR = 60.0
"""Seconds for which a demand counts as impossible; then it is predicted anew."""
NEAR = 1.1
"""A demand that is impossible should come to within this factor of the best."""
CHANGED = 0.2
"""An impossible demand is reported again if the best changes by more than this share."""


@dataclass(frozen=True)
class Reachable:
    """The best latency (s) and memory (bytes) that are predicted to be reachable for an impossible `demand`; None: what
    is asked for is reachable. Found at a time (s)."""

    demand: Demand
    at: float
    latency: float | None = None
    memory: float | None = None

    @property
    def limit(self) -> float:
        """The excess (see `Demand.excess`) that the demand may have."""
        pairs = ((self.latency, self.demand.longest), (self.memory, self.demand.largest))
        return max((NEAR * best / most - 1 for best, most in pairs if best is not None and most), default=0.0)

    @property
    def text(self) -> str:
        """The best, for people."""
        latency = [] if self.latency is None else [f"{self.latency:.3g} s"]
        memory = [] if self.memory is None else [f"{self.memory:.3g} bytes"]
        return "best reachable: " + ", ".join((*latency, *memory))

    def near(self, other: Reachable) -> bool:
        """Whether the other one is hardly different."""
        for old, new in ((self.latency, other.latency), (self.memory, other.memory)):
            if (old is None) != (new is None):
                return False
            if old is not None and new is not None and abs(new / old - 1) > CHANGED:
                return False
        return True


class ImpossibleSpecs:
    """The demands that are known to be impossible, by query (`known`). Used by the optimizer's thread; `known` is
    replaced, never changed, so that any thread may read it."""

    def __init__(self) -> None:
        self.known: Mapping[str, Reachable] = {}

    def observe(self, seen: Observation) -> None:
        """Forgets those that are met, changed or gone."""
        self.known = {
            query: found
            for query, found in self.known.items()
            if (demand := seen.demands.get(query)) is not None and demand.missed and _same(demand, found.demand)
        }

    def limits(self, now: float) -> dict[str, float]:
        """The excess that each impossible demand may have, unless it is to be predicted anew."""
        return {query: each.limit for query, each in self.known.items() if now - each.at < VALID_FOR}

    def find(
        self, seen: Observation, setting: Setting, predictor: Predictor, missed: Iterable[Demand]
    ) -> list[tuple[Reachable, bool]]:
        """Finds the missed demands that are impossible, each with whether that is to be reported."""
        found: list[tuple[Reachable, bool]] = []
        for demand in missed:
            best = _best(seen, setting, predictor, demand)
            before = self.known.get(demand.query)
            self.known = {query: each for query, each in self.known.items() if query != demand.query}
            if best is None:
                continue
            self.known = {**self.known, demand.query: best}
            found.append((best, before is None or not before.near(best)))
        return found


def _same(demand: Demand, other: Demand) -> bool:
    return replace(demand, latency=None, memory=None) == replace(other, latency=None, memory=None)


def _best(seen: Observation, setting: Setting, predictor: Predictor, demand: Demand) -> Reachable | None:
    """The best that is reachable, if that does not meet the demand."""
    settings = [*extreme(seen, setting, demand), setting]
    latency = min(predictor.latency(each, demand.query) for each in settings)
    memory = min(predictor.memory(each, demand.query) for each in settings)
    latency, memory = min(latency, demand.latency or inf), min(memory, demand.memory or inf)
    slow = demand.longest is not None and demand.longest < latency < inf
    large = demand.largest is not None and demand.largest < memory < inf
    if not (slow or large):
        return None
    return Reachable(demand, seen.now, latency if slow else None, memory if large else None)

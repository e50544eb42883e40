"""Highest rate (HR) and highest normalized rate (HNR): results per second of the operators downstream (004 §3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import ClassVar

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import GrantLimits, Policy, Selector
from headgate.scheduling.ranked import RankSelector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.sources_last import SourcesLastSelector
from headgate.scheduling.view import View
from headgate.scheduling.yields import downstream


@register("highest-rate")
@dataclass
class HighestRate(GrantLimits, Policy):
    """Rank of operator x: S_x/C_x of the query fragment downstream from x.

    `sources=last`: operators that read a stream are not ranked; all of them run, one after the other, when no
    other operator has a row (AQSIOS, 004 §3).
    """

    name: ClassVar[str] = "hr"
    sources: str = parameter("choice", "ranked", "when operators that read a stream run", ("ranked", "last"))
    interval: float = 1.0

    def cut(self, view: View) -> Cut:
        return Cut.every(view.topology)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        if self.sources == "last":
            return SourcesLastSelector(view, units, members, self.ranks, self.rows, self.quantum)
        return RankSelector(view, units, members, self.ranks, self.rows, self.quantum)

    def ranks(self, view: View, units: Units) -> Sequence[float]:
        cost, results = downstream(view)
        ranks = [r / c for r, c in zip(results, cost, strict=True)]
        return self._of_units(view, units, ranks)

    @staticmethod
    def _of_units(view: View, units: Units, ranks: Sequence[float]) -> Sequence[float]:
        """A unit has the best rank among the operators that its entries lead to."""
        edges = view.topology.edges
        return [max([ranks[edges[e].consumer] for e in unit.entries]) for unit in units.units]


@register("highest-normalized-rate")
@dataclass
class HighestNormalizedRate(HighestRate):
    """Rank of operator x: S_x/(C_x·T), with T the ideal time of a result from the leaf to the output.

    Slowdown is latency over T (004's ref. 10), so every result counts 1/T. Where x serves several
    outputs, the results of each are divided by its own T.
    """

    name: ClassVar[str] = "hnr"

    def ranks(self, view: View, units: Units) -> Sequence[float]:
        topology, stats = view.topology, view.statistics
        cost, _ = downstream(view)
        before = [0.0] * len(topology.operators)
        for o in topology.order:
            before[o] = min((before[p] + stats.cost[p] for p in topology.producers(o)), default=0.0)
        ranks = [0.0] * len(topology.operators)
        place = {o: i for i, o in enumerate(topology.order)}
        for o in topology.order:
            ranks[o] = self._normalized(view, o, before[o], place) / cost[o]
        return self._of_units(view, units, ranks)

    @staticmethod
    def _normalized(view: View, start: int, before: float, place: Mapping[int, int]) -> float:
        """Results per row at `start`, each divided by the ideal time from the leaf through `start`."""
        topology, stats = view.topology, view.statistics
        rows = {start: 1.0}
        time = {start: before}
        total = 0.0
        # The operators downstream, each after all of its producers.
        found = {start}
        below = [(place[start], start)]
        while below:
            _, o = heappop(below)
            ideal = time[o] + stats.cost[o]
            made = rows[o] * stats.selectivity[o]
            total += made * len(topology.results[o]) / ideal
            for k in topology.consumers(o):
                rows[k] = rows.get(k, 0.0) + made
                time[k] = min(time.get(k, inf), ideal)
                if k not in found:
                    found.add(k)
                    heappush(below, (place[k], k))
        return total

"""Chain: segments of the lower envelope of the memory chart, steepest first (001's ref. 2; 002 §2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headgate.scheduling.charts import Path, memory_steps, partition, paths
from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import GrantLimits, Policy, Selector
from headgate.scheduling.ranked import RankSelector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.topology import Topology
from headgate.scheduling.view import View
from headgate.scheduling.yields import memory_slope, rank_by


def cut_of_segments(topology: Topology, segmented: Iterable[tuple[Path, Sequence[int]]]) -> Cut:
    """The cut that queues each path at its first edge and at the given places along it.

    An edge behind a join is on several paths; it is direct only if all of them agree.
    """
    queued: set[int] = set()
    for path, starts in segmented:
        queued.add(path.edges[0])
        queued.update(path.edges[place] for place in starts)
    return Cut(frozenset(queued), per_entry=True)


@register()
@dataclass
class Chain(GrantLimits, Policy):
    """Operators in one segment of a path's lower envelope run as one; rank: the segment's slope.

    With `queues=every` there is a queue before every operator, as in the system of 002: the operators of a segment are
    units of the same rank, and the one furthest downstream goes first. A change to or from another policy that queues
    every edge then drains nothing.

    Forks are cut as if each branch had its own buffer (see `chart-memory` for shared forks).
    """

    name: ClassVar[str] = "chain"
    queues: str = parameter("choice", "segments", "before which operators there are queues", ("segments", "every"))
    interval: float = 1.0

    def cut(self, view: View) -> Cut:
        if self.queues == "every":
            return Cut(Cut.every(view.topology).queued, per_entry=True)
        return self._segments(view)

    def _segments(self, view: View) -> Cut:
        segmented = [
            (path, [segment.start for segment in partition(memory_steps(view, path))]) for path in paths(view.topology)
        ]
        return cut_of_segments(view.topology, segmented)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        every = self.queues == "every"
        rank = self._slopes_of_segments if every else rank_by(memory_slope)
        return RankSelector(view, units, members, rank, self.rows, self.quantum, downstream=every)

    def _slopes_of_segments(self, view: View, units: Units) -> Sequence[float]:
        """For each unit the slope of the segment that it is in (the steepest, if it is in several)."""
        segments = Units.of(view.topology, self._segments(view))
        slopes = rank_by(memory_slope)(view, segments)
        found = []
        for unit in units.units:
            edge = view.topology.edges[unit.entries[0]]
            if edge.id in segments.cut.queued:
                found.append(slopes[segments.of_edge[edge.id]])
                continue
            inside = {edge.producer, edge.consumer}
            found.append(max(slopes[s.id] for s in segments.units if inside <= set(s.operators)))
        return found

    def refresh(self, view: View, now: float) -> bool:
        return True

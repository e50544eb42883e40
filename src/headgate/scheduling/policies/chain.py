"""Chain: segments of the lower envelope of the memory chart, steepest first (001's ref. 2; 002 §2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headgate.scheduling.charts import Path, memory_steps, partition, paths
from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import GrantLimits, Policy, Selector
from headgate.scheduling.ranked import RankSelector
from headgate.scheduling.registry import register
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

    Forks are cut as if each branch had a buffer of its own (see `chart-memory` for shared forks).
    """

    name: ClassVar[str] = "chain"
    interval: float = 1.0

    def cut(self, view: View) -> Cut:
        segmented = [
            (path, [segment.start for segment in partition(memory_steps(view, path))]) for path in paths(view.topology)
        ]
        return cut_of_segments(view.topology, segmented)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return RankSelector(view, units, members, rank_by(memory_slope), self.rows, self.quantum)

    def refresh(self, view: View, now: float) -> bool:
        return True

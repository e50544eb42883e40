"""Segment and simplified segment: runs of rising memory release capacity (003 §4.1.3, §4.1.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from headgate.scheduling.charts import Path, leaving_bytes, paths
from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policies.walk import PathLimits, path_cut, path_selector
from headgate.scheduling.policy import Policy, Selector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.view import View
from headgate.scheduling.yields import memory_slope, rank_by


def release_capacity(view: View, operator: int) -> float:
    """Bytes an operator frees per second: C^P·(input size − σ·output size), 003 §4.1."""
    stats = view.statistics
    freed = stats.bytes_in[operator] - stats.selectivity[operator] * leaving_bytes(view, operator)
    return freed / stats.cost[operator]


def segments(view: View, path: Path) -> list[tuple[int, ...]]:
    """Split a path: the next operator joins the segment if its release capacity is higher (003 §4.1.3.1)."""
    found: list[list[int]] = [[path.operators[0]]]
    for operator in path.operators[1:]:
        if release_capacity(view, operator) > release_capacity(view, found[-1][-1]):
            found[-1].append(operator)
        else:
            found.append([operator])
    return [tuple(segment) for segment in found]


def simplified_segments(view: View, path: Path, gamma: float) -> list[tuple[int, ...]]:
    """Split a path in at most two: the leaf and its followers while the ratio of release capacities exceeds γ,
    and the rest (003 §4.1.4.1)."""
    first = [path.operators[0]]
    for operator in path.operators[1:]:
        # Written without a division: the capacity of an operator that frees nothing is zero or less.
        if not release_capacity(view, operator) > gamma * release_capacity(view, first[-1]):
            break
        first.append(operator)
    rest = path.operators[len(first) :]
    return [tuple(first), rest] if rest else [tuple(first)]


def prune(found: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Drop segments that another one contains (003 §5.1.5, Fig. 5.3)."""
    kept: list[tuple[int, ...]] = []
    for segment in found:
        if any(set(segment) <= set(other) for other in kept):
            continue
        kept = [other for other in kept if not set(other) <= set(segment)]
        kept.append(segment)
    return kept


@register()
@dataclass
class SegmentPolicy(PathLimits, Policy):
    """Rank of a segment: its memory release capacity."""

    name: ClassVar[str] = "segment"
    interval: float = 1.0

    def split(self, view: View, path: Path) -> list[tuple[int, ...]]:
        return segments(view, path)

    def cut(self, view: View) -> Cut:
        return path_cut(self, view, self._segments)

    def _segments(self, view: View) -> Cut:
        topology = view.topology
        found = paths(topology)
        kept = prune([segment for path in found for segment in self.split(view, path)])
        inside = {pair for segment in kept for pair in pairwise(segment)}
        starts = {path.edges[0] for path in found}
        queued = frozenset(
            edge.id for edge in topology.edges if edge.id in starts or (edge.producer, edge.consumer) not in inside
        )
        return Cut(queued, per_entry=True)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return path_selector(self, view, units, members, self._segments, rank_by(memory_slope))

    def refresh(self, view: View, now: float) -> bool:
        return True


@register("simplified-segment")
@dataclass
class SimplifiedSegment(SegmentPolicy):
    """As `segment`, with at most two segments per path."""

    name: ClassVar[str] = "simplified"
    gamma: float = parameter("fraction", 0.5, "least ratio of release capacities that extends a segment")

    def split(self, view: View, path: Path) -> list[tuple[int, ...]]:
        return simplified_segments(view, path, self.gamma)

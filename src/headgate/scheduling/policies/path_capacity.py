"""Path capacity: a row runs from its leaf to the root; the fastest path first (003 §4.1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import GrantLimits, Policy, Selector
from headgate.scheduling.ranked import RankSelector
from headgate.scheduling.registry import register
from headgate.scheduling.view import View
from headgate.scheduling.yields import rank_by


@register("path-capacity")
@dataclass
class PathCapacity(GrantLimits, Policy):
    """Rank: rows the path can process per second, 1/(1/C_1 + σ_1/C_2 + … + σ_1…σ_{k−1}/C_k)."""

    name: ClassVar[str] = "path"
    interval: float = 1.0

    def cut(self, view: View) -> Cut:
        return Cut.sources(view.topology, per_entry=True)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        rank = rank_by(lambda done: 1 / done.cost)
        return RankSelector(view, units, members, rank, self.rows, self.quantum)

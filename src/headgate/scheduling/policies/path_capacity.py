"""Path capacity: a row runs from its leaf to the root; the fastest path first (003 §4.1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policies.walk import PathLimits, path_cut, path_selector
from headgate.scheduling.policy import Policy, Selector
from headgate.scheduling.registry import register
from headgate.scheduling.view import View
from headgate.scheduling.yields import rank_by


def _paths(view: View) -> Cut:
    return Cut.sources(view.topology, per_entry=True)


@register("path-capacity")
@dataclass
class PathCapacity(PathLimits, Policy):
    """Rank: rows the path can process per second, 1/(1/C_1 + σ_1/C_2 + … + σ_1…σ_{k−1}/C_k)."""

    name: ClassVar[str] = "path"
    interval: float = 1.0

    def cut(self, view: View) -> Cut:
        return path_cut(self, view, _paths)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        rank = rank_by(lambda done: 1 / done.cost)
        return path_selector(self, view, units, members, _paths, rank)

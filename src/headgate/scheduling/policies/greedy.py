"""Greedy: each operator by its own slope, whatever follows it (001 §3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import GrantLimits, Policy, Selector
from headgate.scheduling.ranked import RankSelector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.view import View
from headgate.scheduling.yields import memory_slope, rank_by


@register()
@dataclass
class Greedy(GrantLimits, Policy):
    """Rank with `of=memory`: (M_in − σ·M_out)/τ; with `of=latency`: σ/τ, the operator's own results per second."""

    name: ClassVar[str] = "greedy"
    of: str = parameter("choice", "memory", "which slope", ("memory", "latency"))
    interval: float = 1.0

    def cut(self, view: View) -> Cut:
        return Cut.every(view.topology)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        rank = rank_by(memory_slope if self.of == "memory" else lambda done: done.rows / done.cost)
        return RankSelector(view, units, members, rank, self.rows, self.quantum)

"""MTIQ: the unit with the most tuples in its queues (002 §2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import GrantLimits, Policy, Selector
from headgate.scheduling.ranked import LiveSelector, length
from headgate.scheduling.registry import register
from headgate.scheduling.view import View


@register("most-tuples")
@dataclass
class MostTuples(GrantLimits, Policy):
    """Priority is the number of tuples in the unit's input queue(s)."""

    name: ClassVar[str] = "mtiq"
    interval: float = inf

    def cut(self, view: View) -> Cut:
        return Cut.every(view.topology)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return LiveSelector(view, units, members, length, self.rows, self.quantum)

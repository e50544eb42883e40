"""FIFO: the unit whose oldest row arrived first (000 §6.6, 002 §2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import GrantLimits, Policy, Selector
from headgate.scheduling.ranked import LiveSelector, oldest
from headgate.scheduling.registry import register
from headgate.scheduling.view import View


@register()
@dataclass
class Fifo(GrantLimits, Policy):
    """Pushes the oldest rows through first; a result is as old as the row it stems from.

    Of rows equally old, the one furthest through the plan goes first, as in 002 Table 1.
    """

    name: ClassVar[str] = "fifo"
    interval: float = inf

    def cut(self, view: View) -> Cut:
        return Cut.every(view.topology)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return LiveSelector(view, units, members, oldest, self.rows, self.quantum, growth=False, downstream=True)

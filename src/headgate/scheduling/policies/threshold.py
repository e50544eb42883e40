"""Threshold: path capacity while memory is ample, segment above a memory limit (002's ref. 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policies.path_capacity import PathCapacity
from headgate.scheduling.policies.segment import SegmentPolicy
from headgate.scheduling.policy import GrantLimits, Policy, Selector
from headgate.scheduling.registry import parameter, register
from headgate.scheduling.view import View


@register()
@dataclass
class Threshold(GrantLimits, Policy):
    """Minimizes latency until the queues hold `limit` bytes, then memory until they hold less than `low` of it."""

    name: ClassVar[str] = "threshold"
    limit: float = parameter("positive", 64e6, "bytes in the queues above which memory comes first")
    low: float = parameter("fraction", 0.5, "share of the limit below which latency comes first again")
    interval: float = parameter("seconds", 0.1, "time between two checks of the memory")
    _short: bool = field(default=False, init=False)

    def _active(self) -> Policy:
        return SegmentPolicy(self.rows, self.quantum) if self._short else PathCapacity(self.rows, self.quantum)

    def cut(self, view: View) -> Cut:
        return self._active().cut(view)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return self._active().selector(view, units, members)

    def refresh(self, view: View, now: float) -> bool:
        before = self._short
        self._short = view.queues.memory > self.limit * (self.low if before else 1.0)
        return before != self._short

    def state(self) -> dict[str, Any]:
        return {"short": self._short}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._short = bool(state["short"])

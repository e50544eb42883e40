"""Decisions that a scheduler or the optimizer takes by itself, kept with their reasons."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

KEPT = 100
"""Newest decisions that a policy keeps."""


@dataclass
class Decision:
    """One decision.

    - `number`: sequence number among the decisions of one maker (a policy or the optimizer); `at`: time (s, by the
      maker's clock)
    - `kind`: the setting that changes (policy, class share, pace, …); `subject`: the class or query concerned
    - `chosen`, `before`: the new and the previous value of the setting
    - `reason`: one line for people; `scores`: the figures that the choice is based on
    - `expected`: the predicted figures; `came`: the measured figures (means), empty before the first measurement
    - `intervals`: number of intervals for which it has been kept
    """

    number: int
    at: float
    kind: str
    subject: str
    chosen: str
    before: str
    reason: str
    scores: Mapping[str, float] = field(default_factory=dict)
    expected: Mapping[str, float] = field(default_factory=dict)
    came: Mapping[str, float] = field(default_factory=dict)
    intervals: int = 0

    def plain(self) -> dict[str, Any]:
        """The decision as plain values for JSON."""
        return asdict(self)

    def measured(self, values: Mapping[str, float]) -> None:
        """Adds the values measured in another interval under this decision; `came` is the mean over the intervals."""
        self.intervals += 1
        share = 1 / self.intervals
        known = self.came
        self.came = {name: known.get(name, value) * (1 - share) + value * share for name, value in values.items()}


class DecisionLog:
    """The newest decisions of one maker."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept: deque[Decision] = deque(maxlen=kept)
        self._number = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def last(self) -> Decision | None:
        return self._kept[-1] if self._kept else None

    def add(self, at: float, kind: str, subject: str, chosen: str, before: str, reason: str, **more: Any) -> Decision:
        """Records a decision."""
        self._number += 1
        made = Decision(self._number, at, kind, subject, chosen, before, reason, **more)
        self._kept.append(made)
        return made

    def plain(self) -> list[dict[str, Any]]:
        """All kept decisions, oldest first."""
        return [decision.plain() for decision in self._kept]

    def restore(self, known: Iterable[Mapping[str, Any]]) -> None:
        """Continues with decisions that `plain` returned."""
        self._kept.clear()
        self._kept.extend(Decision(**each) for each in known)
        self._number = self._kept[-1].number if self._kept else 0

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

    - `number`: rises by one from decision to decision of the same maker; `at`: when (s, by the maker's clock)
    - `kind`: what was decided about (policy, class share, pace, …); `subject`: the class or query that it is for
    - `chosen`, `before`: the new setting and the one before it
    - `reason`: one line for people; `scores`: what the choice was made from
    - `expected`: what the maker expects of it; `came`: what was measured since, empty as long as nothing was
    - `intervals`: for how many intervals it has been kept
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
        """Another interval under this decision has ended with these values: `came` is their mean."""
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
        """All that are kept, oldest first."""
        return [decision.plain() for decision in self._kept]

    def restore(self, known: Iterable[Mapping[str, Any]]) -> None:
        """Continues with decisions that `plain` returned."""
        self._kept.clear()
        self._kept.extend(Decision(**each) for each in known)
        self._number = self._kept[-1].number if self._kept else 0

"""How MavStream runs a path or segment: operator by operator, bottom up, one quantum each, with queues in between.

003 §5.1.3: the scheduler takes the first path in the order of ranks that has more than τ tuples in its leaf buffer
(§4.1.6.4: against starvation), and runs each of its operators for a quantum. "If the time quantum is elapsed and the
operator has not finished its operation completely, it picks the next operator in the operator path."
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import Grant, GrantLimits, Selector
from headgate.scheduling.ranked import Rank, RankSelector
from headgate.scheduling.registry import parameter
from headgate.scheduling.view import View

Base = Callable[[View], Cut]
"""The cut whose units are the paths or segments."""


@dataclass(frozen=True)
class Walk:
    """The operators of a path or segment as units, bottom up, and the edges of its leaf buffer."""

    steps: tuple[int, ...]
    leaf: tuple[int, ...]
    rank: float


@dataclass
class PathLimits(GrantLimits):
    """The options of policies that rank paths or segments."""

    walk: str = parameter(
        "choice", "units", "a path runs as one unit, or operator by operator (003 §5.1.3)", ("units", "operators")
    )
    tau: float = parameter("number", 0, "a path waits until more than this many rows are before it (003 §4.1.6.4)")

    @property
    def walks(self) -> bool:
        """Whether paths are run as in the thesis: by a walk, or only above a threshold."""
        return self.walk == "operators" or self.tau > 0


class WalkSelector(Selector):
    """Takes the first path in the order of ranks with more than τ rows before it, and grants its operators in turn.

    If no path has more than τ, it takes the first one with any row: a processor never idles while rows wait. A decision
    reads every path, so it costs O(paths).
    """

    def __init__(
        self, view: View, units: Units, members: Sequence[int] | None, policy: PathLimits, base: Base, rank: Rank
    ) -> None:
        self._units = units
        self._rows = view.queues.rows
        self._policy = policy
        self._base, self._rank = base, rank
        self._members = set(range(len(units)) if members is None else members)
        self._busy: set[int] = set()
        self._steps: list[int] = []
        self._walks: list[Walk] = []
        self.refresh(view, 0.0)

    def refresh(self, view: View, now: float) -> None:
        """Sorts the paths again (003 §4.1.6.3: in each iteration of the scheduler; ranks change only here)."""
        paths = Units.of(view.topology, self._base(view))
        ranks = self._rank(view, paths)
        unit_of = {o: unit.id for unit in self._units.units for o in unit.operators}
        found = []
        for path in paths.units:
            if self._policy.walk == "operators":
                steps = tuple(dict.fromkeys(unit_of[o] for o in path.operators))
            else:
                steps = tuple(self._units.of_edge[e] for e in path.entries)
            steps = tuple(step for step in steps if step in self._members)
            if steps:
                found.append(Walk(steps, path.entries, ranks[path.id]))
        self._walks = sorted(found, key=lambda walk: -walk.rank)

    def arrived(self, unit: int) -> None:
        """Does nothing: queues are read when a path is chosen."""

    def next(self, now: float) -> Grant | None:
        while True:
            while self._steps:
                unit = self._steps.pop(0)
                if self._ready(unit):
                    self._busy.add(self._units[unit].component)
                    return Grant(unit, self._policy.rows, self._policy.quantum)
            walk = self._chosen()
            if walk is None:
                return None
            self._steps = list(walk.steps)

    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None:
        self._busy.discard(self._units[unit].component)

    def _ready(self, unit: int) -> bool:
        found = self._units[unit]
        return found.component not in self._busy and any(self._rows[e] > 0 for e in found.entries)

    def _chosen(self) -> Walk | None:
        able = [walk for walk in self._walks if any(self._ready(step) for step in walk.steps)]
        for walk in able:
            if sum(self._rows[e] for e in walk.leaf) > self._policy.tau:
                return walk
        return able[0] if able else None


def path_cut(policy: PathLimits, view: View, base: Base) -> Cut:
    """The cut of a policy whose paths are the units of `base`."""
    return Cut.every(view.topology) if policy.walk == "operators" else base(view)


def path_selector(
    policy: PathLimits, view: View, units: Units, members: Sequence[int] | None, base: Base, rank: Rank
) -> Selector:
    """The selector of such a policy."""
    if policy.walks:
        return WalkSelector(view, units, members, policy, base, rank)
    return RankSelector(view, units, members, rank, policy.rows, policy.quantum)

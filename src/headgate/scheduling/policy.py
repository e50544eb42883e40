"""The contract between a policy, which decides, and an executor, which runs the grants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, NamedTuple

from headgate.graph.specs import Objectives
from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.registry import parameter
from headgate.scheduling.view import View


class Grant(NamedTuple):
    """Run this unit for at most `rows` rows and `seconds` (checked between rows: a row is never interrupted).

    `rows = inf` means the rows that are waiting when the grant begins; later rows wait for the next grant.
    """

    unit: int
    rows: float = inf
    seconds: float = inf


class Selector(ABC):
    """Which unit runs next. Event driven, O(log units) a call, called by one thread at a time.

    The executor first writes `view.queues`, then calls:

    - `arrived(unit)`: an entry of the unit went from empty to not empty
    - `changed(unit)`: rows were added to an entry that was not empty (only if `watches_growth`)
    - `finished(unit, …)`: a grant has ended, its rows are taken and its results are in the queues

    The component of a granted unit belongs to the executor until `finished`; `next` does not grant it meanwhile.
    `next` returns None only if no unit of a free component has a waiting row: a processor never idles
    while a unit is ready.
    """

    watches_growth: bool = False

    @abstractmethod
    def arrived(self, unit: int) -> None: ...

    def changed(self, unit: int) -> None:  # noqa: B027 - most ranks do not depend on the queue's length
        """Rows were added to a queue that was not empty."""

    @abstractmethod
    def next(self, now: float) -> Grant | None: ...

    @abstractmethod
    def finished(self, unit: int, now: float, elapsed: float, rows_in: float, rows_out: float) -> None: ...

    def prefer(self, cls: int) -> None:  # noqa: B027 - most policies know no classes
        """The results of a class, by its place in `Topology.classes`, are awaited now: if it has work and a share left,
        it comes next."""

    @abstractmethod
    def refresh(self, view: View, now: float) -> None:
        """Compute the ranks again from fresh statistics; called at intervals, not at each decision."""


class Policy(ABC):
    """A cut and a rank. Holds parameters (and what it has learned, if it learns); never runs anything.

    The executor calls `refresh` every `refresh_every` seconds; True means that the cut may have changed. A policy
    that needs another selector although the cut is the same increments its `generation`.
    """

    name: ClassVar[str]
    interval: float = 1.0

    @property
    def refresh_every(self) -> float:
        """Seconds between two calls of `refresh`."""
        return self.interval

    @property
    def generation(self) -> int:
        return 0

    @abstractmethod
    def cut(self, view: View) -> Cut: ...

    @abstractmethod
    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        """A selector over all units, or over `members` only (when composed in CQC or HMTS)."""

    def refresh(self, view: View, now: float) -> bool:
        """Use the fresh statistics; True if the cut may have changed."""
        return False

    def pursue(self, objectives: Objectives) -> None:  # noqa: B027 - most policies have no choice
        """Use these weights of the objectives (empty: the policy's own) from now on; what was learned is kept."""

    def continues(self, before: Policy) -> None:  # noqa: B027 - most policies do not learn
        """Called when this policy replaces `before` in a running network; may take over what `before` has learned."""

    def decisions(self) -> Sequence[Mapping[str, Any]]:
        """The newest decisions of the policy itself, oldest first, as plain values for JSON (see `decisions.py`)."""
        return ()

    def state(self) -> dict[str, Any]:
        """What it has learned, as plain values for JSON; empty if it does not learn."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - most policies do not learn
        """Takes over what a policy with the same parameters (`registry.described`) has learned."""


@dataclass
class GrantLimits:
    """How much one grant may take: the parameters `rows` and `quantum` of every ranked policy."""

    rows: float = parameter("rows", inf, "rows a grant may take (default: all waiting rows)")
    quantum: float = parameter("seconds", inf, "time a grant may take (default: no limit)")

"""The declarations of the users of an engine: they survive a stop and a restart, and changes can be undone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headgate.control.lifecycle import QueryLifecycles
from headgate.graph.queries import Query, QueryClass
from headgate.graph.specs import Objectives
from headgate.scheduling import policy as policy_of
from headgate.scheduling.amos import Auto
from headgate.sql import Catalog
from headgate.sql.context import Context


@dataclass(frozen=True)
class DeclarationsMark:
    """The declarations at a moment, for `Declarations.back_to`."""

    catalog: Context
    frames: frozenset[str]
    attempts: dict[str, int]


@dataclass(frozen=True)
class ReportedDeclarations:
    """What the metrics need of the declarations, at a moment."""

    queries: dict[str, Query]
    classes: Mapping[str, QueryClass]
    objectives: Objectives
    policy: str

    def judged(self) -> dict[str, Query]:
        """The queries whose specs are judged now: those that are running."""
        now = time.time()
        return {name: query for name, query in self.queries.items() if query.phase(now) == "running"}


@dataclass
class Declarations:
    """The declared streams and queries, the policy and the number of replicas. Changed under the engine's lock.

    - `replicas`: the number that the user asks for; None: the default of the session
    - `frames`: the streaming DataFrames that are declared as streams
    - `attempts`: how often a query was dropped or retried; a query of a later attempt starts without state
    - `lifecycles`: which queries have answered, and how each was declared
    """

    catalog: Catalog
    policy: str
    replicas: int | None
    frames: dict[str, Any] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    lifecycles: QueryLifecycles = field(default_factory=QueryLifecycles)

    @property
    def queries(self) -> dict[str, Query]:
        """The queries as declared."""
        return dict(self.catalog.queries)

    @property
    def attempted(self) -> dict[str, Query]:
        """The queries, each with the number of its attempt."""
        return {name: replace(each, attempt=self.attempts.get(name, 0)) for name, each in self.queries.items()}

    def judged(self) -> dict[str, Query]:
        """The queries whose specs are judged now: those that are running."""
        now = time.time()
        return {name: query for name, query in self.queries.items() if query.phase(now) == "running"}

    def reported(self) -> ReportedDeclarations:
        """The present declarations, for the metrics."""
        catalog = self.catalog
        return ReportedDeclarations(self.queries, dict(catalog.classes), catalog.objectives, self.policy)

    @property
    def auto(self) -> bool:
        """Whether the policy leaves settings to the run-time optimizer."""
        return isinstance(policy_of(self.policy), Auto)

    def discard_state(self, query: str) -> None:
        """Makes the query of this name, declared now or later, start without state."""
        self.attempts[query] = self.attempts.get(query, 0) + 1

    def mark(self) -> DeclarationsMark:
        """The present declarations."""
        return DeclarationsMark(self.catalog.mark(), frozenset(self.frames), dict(self.attempts))

    def back_to(self, mark: DeclarationsMark) -> None:
        """Undoes all changes of the catalog, frames and attempts since `mark`."""
        self.catalog.back_to(mark.catalog)
        self.attempts = mark.attempts
        # Changed in place, since the lanes of a run read this mapping.
        for name in self.frames.keys() - mark.frames:
            del self.frames[name]

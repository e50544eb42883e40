"""The methods of the engine that change queries and objectives, while it runs or before."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from headgate.graph.specs import Spec
from headgate.sql import Catalog


class EngineError(RuntimeError):
    """The engine cannot do what was requested, or has stopped; the message says why."""


class QueryControl(ABC):
    """Changes of queries and objectives. While the engine runs, a change takes effect with the next epoch and stops no
    other query; a change that fails leaves everything as it was. All methods may be called from any thread, and raise
    SqlError for a wrong name or value."""

    _lock: threading.RLock
    _catalog: Catalog
    _running_once: bool

    @abstractmethod
    def _changing(self) -> AbstractContextManager[object]:
        """The context of a change of the catalog, under the lock: on exit the next epoch uses it, or it is undone."""

    def alter(self, name: str, *, cls: str | None = None, spec: Spec | Mapping[str, Any] | None = None) -> None:
        """Changes the class of a query or options of its spec (None removes one); its state is kept."""
        with self._lock, self._changing():
            self._catalog.alter_query(name, cls, spec)

    def move(self, name: str, cls: str) -> None:
        """Moves a query to another class; its state is kept."""
        self.alter(name, cls=cls)

    def pause(self, name: str, keep: bool = True) -> None:
        """Pauses a query: it emits nothing until `resume`. Its waiting rows and the rows that arrive meanwhile are
        kept, in memory and in files, and processed then; without `keep` they are dropped and counted."""
        with self._lock, self._changing():
            if self._running_once:
                raise EngineError(f"query {name} cannot be paused: the engine runs once, until all rows are answered")
            self._catalog.pause_query(name, keep)

    def resume(self, name: str) -> None:
        """Ends the pause of a query."""
        with self._lock, self._changing():
            self._catalog.resume_query(name)

    def stop_query(self, name: str) -> None:
        """Ends a query and frees its state. It remains listed as stopped, and its results can be read until `drop`."""
        with self._lock, self._changing():
            self._catalog.stop_query(name)

    @property
    def objectives(self) -> dict[str, float]:
        """The weights of the metrics that matter to the whole system: delay, output, queue, memory and freshness. They
        add up to 1; empty means the policy's own. May be set while running: a policy keeps what it has learned."""
        return dict(self._catalog.objectives)

    @objectives.setter
    def objectives(self, weights: Mapping[str, Any]) -> None:
        with self._lock, self._changing():
            self._catalog.set_objectives(weights)

"""All decisions of a running engine: those of the policies on all replicas, and those of the run-time optimizer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from headgate.scheduling.decisions import Decision

KEPT = 1000
"""Newest decisions that an engine keeps."""


class DecisionHistory:
    """The newest decisions, each once, in order of time. Any thread may call it.

    Policies report each decision repeatedly, with newer measurements: the last report counts.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._lock = threading.Lock()
        self._kept = kept
        self._known: dict[tuple[Any, ...], dict[str, Any]] = {}

    def reported(self, decisions: Iterable[Mapping[str, Any]]) -> None:
        """Adds decisions from the metrics of the network."""
        with self._lock:
            for each in decisions:
                # The time distinguishes a host that was restored from an older state from the host before it.
                key = (each.get("replica", 0), each["subject"], each["number"], each["at"])
                self._known[key] = dict(each)
            self._shorten()

    def add(self, decision: Decision) -> None:
        """Adds a decision of the optimizer, or replaces it once its effect is known."""
        with self._lock:
            self._known["optimizer", decision.subject, decision.number, decision.at] = decision.plain()
            self._shorten()

    def all(self) -> list[dict[str, Any]]:
        """All kept decisions, oldest first."""
        with self._lock:
            return sorted(self._known.values(), key=itemgetter("at"))

    @property
    def last(self) -> dict[str, Any] | None:
        """The newest decision."""
        with self._lock:
            return max(self._known.values(), key=itemgetter("at"), default=None)

    def _shorten(self) -> None:
        extra = len(self._known) - self._kept
        if extra > self._kept // 10:
            for key in sorted(self._known, key=lambda key: self._known[key]["at"])[:extra]:
                del self._known[key]

"""The data of the charts on the page: samples of the metrics, one per second, and events between them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from headgate.runtime.latency import Latency

KEPT = 900
"""Samples and events that are kept: a quarter of an hour at one a second."""


class History:
    """Makes samples out of metrics and keeps the newest. Used by one thread, except for `recent` and `note`."""

    def __init__(self) -> None:
        self._samples: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._events: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._latencies: dict[str, Latency] = {}
        self._totals: tuple[float, dict[str, int], int, int] | None = None

    def sample(self, metrics: Mapping[str, Any], latencies: Mapping[str, Latency]) -> dict[str, Any]:
        """Takes a sample: totals, and the figures of each class since the previous sample."""
        now = time.time()
        read = sum(metrics.get("read", {}).values())
        published = {name: query["published"] for name, query in metrics["queries"].items()}
        before = self._totals or (now, published, metrics["epochs"], read)
        elapsed = max(now - before[0], 1e-3)
        classes: dict[str, Any] = {}
        for name, figures in metrics["classes"].items():
            own = [query for query, each in metrics["queries"].items() if each["class"] == name]
            recent = Latency()
            for query in own:
                recent.merge(latencies.get(query, Latency()).since(self._latencies.get(query, Latency())))
            rows = sum(max(0, published[query] - before[1].get(query, 0)) for query in own)
            classes[name] = {
                "priority": figures["priority"],
                "p50": recent.percentile(0.5) if recent.rows else None,
                "p99": recent.percentile(0.99) if recent.rows else None,
                "results": rows / elapsed,
                "queue_rows": figures.get("queue_rows", 0),
            }
        memory = metrics.get("memory", {})
        found = {
            "time": now,
            "policy": metrics["policy"],
            "waiting": metrics["waiting"],
            "memory": memory.get("bytes", 0),
            "spilled": memory.get("spilled_bytes", 0),
            "results": sum(each["results"] for each in classes.values()),
            "read": max(0, read - before[3]) / elapsed,
            "epochs": max(0, metrics["epochs"] - before[2]) / elapsed,
            "classes": classes,
            "objectives": metrics.get("objectives", {}),
        }
        self._latencies = dict(latencies)
        self._totals = (now, published, metrics["epochs"], read)
        self._samples.append(found)
        return found

    def note(self, kind: str, text: str, at: float | None = None) -> dict[str, Any]:
        """Keeps an event: a policy was changed, a query was added …"""
        event = {"time": time.time() if at is None else at, "kind": kind, "text": text}
        self._events.append(event)
        return event

    @property
    def newest(self) -> dict[str, Any]:
        """The newest sample; empty if there is none."""
        return self._samples[-1] if self._samples else {}

    def recent(self) -> dict[str, Any]:
        """All samples and events that are kept, oldest first."""
        return {"samples": list(self._samples), "events": list(self._events)}

"""Figures that the driver counts, combined with the newest metrics of the network."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from headgate.graph.queries import Phase, Query, QueryClass
from headgate.graph.specs import SPEC_WINDOW
from headgate.operators.batch import Arrival
from headgate.runtime.latency import Latency, RecentLatency
from headgate.spark.epochs import Epoch


class DriverMetrics:
    """Counts epochs, published rows, failures, dead letters and latencies of one run. Any thread may call it."""

    def __init__(self, failed: Mapping[str, str] | None = None, started: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._started = started
        self._epochs = 0
        self._restores = 0
        self._rows: dict[str, int] = {}
        self._failed = dict(failed or {})
        self._dead: dict[str, int] = {}
        self._network: dict[str, Any] = {}
        self._seconds: dict[str, float] = {}
        self._reported = time.monotonic()
        self._latency: dict[str, Latency] = {}
        self._recent: dict[str, RecentLatency] = {}
        self._pace: dict[str, float] = {}
        # Per query: time, rows offered and rows shed at each report of the last SPEC_WINDOW seconds.
        self._shed: dict[str, deque[tuple[float, int, int]]] = {}
        # Of the epochs that are committed and not yet published: arrival times, waiting times and rows.
        self._unpublished: dict[int, tuple[dict[str, Arrival], Mapping[str, float], Mapping[str, int]]] = {}

    def committed(self, epoch: Epoch) -> None:
        """Counts an epoch after its commit."""
        with self._lock:
            self._restores += epoch.restored and self._epochs > 0
            self._epochs += 1
            self._failed.update(epoch.failed)
            self._seconds = epoch.seconds
            self._unpublished[epoch.number] = epoch.arrivals, epoch.waited, epoch.rows
            if epoch.metrics is not None:
                self._note_pace(epoch.metrics["performance"])
                self._note_shed(epoch.metrics["queries"])
                self._network = epoch.metrics
            for stream, rows in epoch.malformed.items():
                self._dead[stream] = self._dead.get(stream, 0) + rows

    def published(self, epoch: int) -> None:
        """Records that all sinks have an epoch: its results can be read, which ends the latency of its rows."""
        now = time.time()
        with self._lock:
            arrivals, waited, published = self._unpublished.pop(epoch, ({}, {}, {}))
            for query, rows in published.items():
                self._rows[query] = self._rows.get(query, 0) + rows
            for query, arrival in arrivals.items():
                before = waited.get(query, 0.0)
                self._latency.setdefault(query, Latency()).add(now, arrival, before)
                self._recent.setdefault(query, RecentLatency(SPEC_WINDOW)).add(now, arrival, before)

    def _note_pace(self, now: Mapping[str, float]) -> None:
        """Computes the metrics of objectives between the last report of the network and this one (`now`)."""
        before, moment = self._network.get("performance"), time.monotonic()
        elapsed, self._reported = moment - self._reported, moment
        # After a restore the totals may be lower than before.
        if before is None or elapsed <= 0 or now["results"] < before["results"]:
            return
        change = {name: now[name] - before[name] for name in now}
        self._pace = {
            "output": change["results"] / elapsed,
            "queue": change["queued_rows"] / elapsed,
            "memory": change["queued_bytes"] / elapsed,
            "freshness": change["staleness"] / elapsed,
        }
        if change["results"]:
            self._pace["delay"] = change["delay"] / change["results"]

    def _note_shed(self, queries: Mapping[str, Mapping[str, Any]]) -> None:
        now = time.monotonic()
        for name in queries:
            figures = _whole(queries, name)
            offered, shed = figures.get("offered", 0), figures.get("shed", 0)
            reports = self._shed.get(name)
            if reports is None or offered < reports[-1][1]:
                # A restored network counts from zero.
                reports = self._shed[name] = deque([(now, 0, 0)])
            if offered:
                reports.append((now, offered, shed))
                while len(reports) > 2 and reports[1][0] < now - SPEC_WINDOW:
                    reports.popleft()

    def shed(self, query: str) -> float:
        """The share of a query's rows that was shed in the last SPEC_WINDOW seconds."""
        with self._lock:
            reports = self._shed.get(query)
            if not reports or reports[-1][1] <= reports[0][1]:
                return 0.0
            return (reports[-1][2] - reports[0][2]) / (reports[-1][1] - reports[0][1])

    @property
    def failed(self) -> frozenset[str]:
        """The names of the queries that have failed."""
        with self._lock:
            return frozenset(self._failed)

    @property
    def network(self) -> Mapping[str, Any]:
        """The newest metrics of the network; empty until there are some."""
        with self._lock:
            return self._network

    @property
    def seconds(self) -> Mapping[str, float]:
        """The parts of the last epoch."""
        with self._lock:
            return self._seconds

    @property
    def pace(self) -> dict[str, float]:
        """The measured metrics of objectives over the last interval between two reports of the network."""
        with self._lock:
            return dict(self._pace)

    def recent(self, query: str) -> tuple[Latency, Mapping[str, Any]]:
        """The latencies of a query's results published in the last SPEC_WINDOW seconds, and the network's newest
        figures of the query."""
        with self._lock:
            known = self._recent.get(query)
            latency = Latency() if known is None else known.whole(time.time())
            return latency, _whole(self._network.get("queries", {}), query)

    def latencies(self) -> dict[str, Latency]:
        """The latencies of each query since the start."""
        with self._lock:
            found = {name: Latency() for name in self._latency}
            for name, latency in self._latency.items():
                found[name].merge(latency)
            return found

    def forget_failure(self, query: str) -> None:
        """The query runs again."""
        with self._lock:
            self._failed.pop(query, None)

    def forget(self, query: str) -> None:
        """The query is dropped; another one may have its name."""
        with self._lock:
            for figures in (self._failed, self._rows, self._latency, self._recent, self._shed):
                figures.pop(query, None)

    def forget_latency(self) -> None:
        """Restarts the latency figures."""
        with self._lock:
            self._latency.clear()
            self._recent.clear()

    def report(
        self, queries: Mapping[str, Query], classes: Mapping[str, QueryClass], phases: Mapping[str, Phase]
    ) -> dict[str, Any]:
        """The metrics of `Engine.metrics`, without the engine's own settings."""
        with self._lock:
            merged: dict[str, Latency] = {}
            by_query: dict[str, Any] = {}
            for name, query in queries.items():
                latency = self._latency.get(name, Latency())
                merged.setdefault(query.cls.name, Latency()).merge(latency)
                figures = _with_latency(_whole(self._network.get("queries", {}), name), latency)
                figures["class"] = query.cls.name
                figures["published"] = self._rows.get(name, 0)
                figures["error"] = self._failed.get(name) or figures.get("error")
                figures["state"] = "failed" if figures["error"] else phases[name]
                by_query[name] = figures
            by_class: dict[str, Any] = {}
            for name, latency in merged.items():
                figures = _with_latency(self._network.get("classes", {}).get(name, {}), latency)
                figures["priority"] = float(classes[name].priority)
                by_class[name] = figures
            elapsed = time.monotonic() - self._started if self._started else 0.0
            return {
                **self._network,
                "queries": by_query,
                "classes": by_class,
                "epochs": self._epochs,
                "restores": self._restores,
                "epochs_per_second": self._epochs / elapsed if elapsed else 0.0,
                "epoch_seconds": dict(self._seconds),
                "dead_letters": dict(self._dead),
            }


def _whole(queries: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """The network's figures of a query, including those of its fragments (see `exchange.py`)."""
    figures = dict(queries.get(name, {}))
    for other, part in queries.items():
        if figures and other.startswith(f"{name}/"):
            for kind in ("queue_rows", "waiting_bytes", "state_bytes", "late", "dropped", "offered", "shed"):
                figures[kind] += part[kind]
            figures["oldest"] = max(figures["oldest"], part["oldest"])
    return figures


def _with_latency(network: Mapping[str, Any], latency: Latency) -> dict[str, Any]:
    """The network's figures with its latency renamed: the driver's latency ends when a result can be read."""
    figures = dict(network)
    figures["network_latency"] = figures.get("latency", Latency().figures())
    figures["latency"] = latency.figures()
    return figures

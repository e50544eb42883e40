"""Judges the specs of all queries from the measurements of a running engine, and reports its objectives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from headgate.control.compliance import Compliance, Measured
from headgate.graph.queries import Query
from headgate.graph.specs import OBJECTIVES, SPEC_PERCENTILE, Objectives
from headgate.spark.driver_metrics import DriverMetrics

JUDGE_EVERY = 0.5
"""Seconds between two judgements while results are published."""


class Quality:
    """The verdicts on all specs. Any thread may call it."""

    def __init__(self) -> None:
        self._compliance = Compliance()
        self._lock = threading.Lock()
        self._judged = 0.0

    def judge(self, queries: Mapping[str, Query], metrics: DriverMetrics) -> dict[str, Any]:
        """The verdict on every query that has a spec (see `compliance.judged`)."""
        specs = {name: query.spec for name, query in queries.items() if query.spec.asks}
        measured = {name: _measured(metrics, name) for name in specs}
        with self._lock:
            self._judged = time.monotonic()
            return self._compliance.observe(self._judged, specs, measured)

    def forget(self, query: str) -> None:
        """See `Compliance.forget`."""
        with self._lock:
            self._compliance.forget(query)

    def judge_when_due(self, queries: Callable[[], Mapping[str, Query]], metrics: DriverMetrics) -> None:
        """As `judge`, if the last judgement is not recent: the share of time in which specs are met must be right even
        if nobody reads the metrics."""
        if time.monotonic() - self._judged >= JUDGE_EVERY:
            self.judge(queries(), metrics)


def objective_figures(weights: Objectives, metrics: DriverMetrics) -> dict[str, Any]:
    """The weight and the measured value (None: nothing measured yet) of each metric that objectives are made of."""
    measured = metrics.pace
    return {name: {"weight": weights.get(name, 0.0), "measured": measured.get(name)} for name in OBJECTIVES}


def _measured(metrics: DriverMetrics, query: str) -> Measured:
    latency, network = metrics.recent(query)
    return Measured(
        latency.percentile(SPEC_PERCENTILE) if latency.rows else None,
        network.get("oldest", 0.0),
        network["waiting_bytes"] + network["state_bytes"] if network else None,
        metrics.shed(query),
    )

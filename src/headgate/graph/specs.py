"""What users ask of quality: the spec of a query, and the objectives of the whole system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SPEC_PERCENTILE = 0.95
"""The percentile of a query's latencies that is compared with its spec."""

SPEC_WINDOW = 10.0
"""Seconds over which a spec is judged."""

OBJECTIVES: Mapping[str, str] = {
    "delay": "minimize the mean time from the arrival of a row to its results",
    "output": "maximize the result rows per second",
    "queue": "minimize the rows that wait in queues",
    "memory": "minimize the bytes that wait in queues",
    "freshness": "minimize the age of the oldest row that waits",
}
"""The metrics that objectives weight, each with its quantifier (002 §3.2); `freshness` is ours."""

Objectives = Mapping[str, float]
"""Weights of metrics, which add up to 1; empty: the policy's own."""


@dataclass(frozen=True)
class Spec:
    """What a user asks of a query's quality: the options of its WITH clause. None means no requirement.

    - `latency`: microseconds from the arrival of a row until its result can be read, at SPEC_PERCENTILE of the rows
    - `tolerance`: share by which latency and memory may be exceeded (003 §4.3.1)
    - `memory`: bytes that the query may hold, rows that wait for it and the state of its operators together
    - `accuracy`: share of its rows that must not be shed; without it none is shed
    - `utility`: an expression over the columns of its streams, as SQL: rows with the lowest value are shed first;
      without it rows are shed at random
    - `scaled`: counts and sums of a query that is shed are scaled up to all rows
    """

    latency: int | None = None
    tolerance: float | None = None
    memory: int | None = None
    accuracy: float | None = None
    utility: str | None = None
    scaled: bool | None = None

    @property
    def slack(self) -> float:
        """The factor by which latency and memory may be exceeded."""
        return 1.0 + (self.tolerance or 0.0)

    @property
    def longest(self) -> float | None:
        """The longest latency in seconds that meets the spec; None if any does."""
        return None if self.latency is None else self.latency / 1e6 * self.slack

    @property
    def largest(self) -> float | None:
        """The most memory in bytes that meets the spec; None if any does."""
        return None if self.memory is None else self.memory * self.slack

    @property
    def asks(self) -> bool:
        """Whether the spec has a requirement that can be missed."""
        return self.latency is not None or self.memory is not None or self.accuracy is not None


NO_SPEC = Spec()
"""The spec without requirements."""

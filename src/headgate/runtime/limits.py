"""How much memory and time a network may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """All in bytes and seconds; None means no limit.

    - `memory`: the limit of the whole network; past it the coldest waiting batches go to files
    - `query_memory`: the limit of each query; past it the query's own waiting batches go to files
    - `query_ceiling`: past this (what waits in memory plus the state of its operators) the query fails
    - `grant`: a grant that has run this long ends after the batch it is at, whatever its policy allowed, so that
      the scheduler gets to decide again; big batches are cut so that they fit
    - `stuck`: a grant that runs longer than this is reported
    """

    memory: int | None = None
    query_memory: int | None = None
    query_ceiling: int | None = None
    grant: float = 0.05
    stuck: float = 5.0

    def __post_init__(self) -> None:
        for name in ("memory", "query_memory", "query_ceiling", "grant", "stuck"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"the limit {name} is {value}; give a number above zero")

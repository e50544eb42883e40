"""What is told of a query for which Catalyst raised. Apart from `blame`, so that workers need not import SQL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guilt:
    """A query that must go: where and what it asked Catalyst to compute, and what Spark said."""

    query: str
    operator: str
    detail: str
    error: str

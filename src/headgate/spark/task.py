"""One epoch of one replica as driver and worker exchange it: the task, and the schema of the answer.

Imports neither SQL nor the network: it is pickled with every task.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

ANSWER = pa.schema([("kind", pa.string()), ("name", pa.string()), ("data", pa.binary())])
ANSWER_DDL = "kind string, name string, data binary"

DEAD = "dead letters"
"""The name of the malformed rows among the results."""

DEAD_SCHEMA = pa.schema([("stream", pa.string()), ("reason", pa.string()), ("row", pa.string())])


@dataclass(frozen=True)
class ExpressionFailure:
    """A query that fails because Catalyst raised: the operator, the expression, and Spark's message."""

    query: str
    operator: str
    detail: str
    error: str


@dataclass(frozen=True)
class Task:
    """The driver's request to a replica for one epoch. Small: the plan and the state are in the checkpoint."""

    run: str
    checkpoint: str
    epoch: int
    attempt: str
    """A name for this attempt at the epoch, never used before."""
    after: int
    """The last committed epoch, whose state this one continues from; -1 if there is none."""
    plan: str
    packing: str | None
    """How the rows are packed; None for an epoch without new rows."""
    arrived: float
    budget: float | None = None
    finish: bool = False
    detailed: bool = True
    """Whether the answer includes the metrics, which are expensive to gather and to send."""
    replica: int = 0
    expression_failures: tuple[ExpressionFailure, ...] = ()
    """Queries for which Catalyst raised on these rows: they fail."""

"""Limits of memory and time, the memory that each query uses, and the record of a query that failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headgate.runtime.dataflow import Wiring
from headgate.runtime.memory import LOW, Memory, Spill
from headgate.runtime.outbox import Outbox
from headgate.runtime.queue import Piece, QueuedBatch


@dataclass(frozen=True)
class Limits:
    """All in bytes and seconds; None means no limit.

    - `memory`: limit of the whole network; above it the coldest waiting batches are spilled to files
    - `query_memory`: limit of each query; above it the query's own waiting batches are spilled to files
    - `query_ceiling`: above it (waiting batches in memory plus the state of its operators) the query fails
    - `grant`: a grant that has run this long ends after its present batch, whatever its policy allows, so that the
      scheduler decides again; large batches are cut to fit
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

    def shared(self, networks: int) -> Limits:
        """The limits of each of several networks that share the memory of a node."""
        return self if self.memory is None else replace(self, memory=max(1, self.memory // networks))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a query was removed from the network. `operator` and `detail` are empty if no operator caused it."""

    query: str
    operator: str
    detail: str
    error: str
    at: float
    plan: str = ""
    """The key of the plan that failed: a query that was rewritten starts again after a restart."""

    def __str__(self) -> str:
        where = f" in {self.operator} ({self.detail})" if self.operator else ""
        return f"query {self.query} failed{where}: {self.error}"

    def state(self) -> dict[str, Any]:
        """All fields, as plain values for JSON."""
        return asdict(self)


LONGEST_TEXT = 1000
"""Characters of an error, at most, that are kept: it is part of every commit from then on."""


def text_of(error: BaseException) -> str:
    """An exception in one line: its type and message, which a user's class may make as long as it likes, or not at all.

    >>> text_of(ValueError("x" * 5000))[-4:], len(text_of(ValueError("x" * 5000)))
    ('xx …', 1000)
    """
    name = type(error).__name__
    try:
        lines = str(error).strip().splitlines()
    except BaseException as raised:
        lines = [f"its text cannot be read ({type(raised).__name__})"]
    text = f"{name}: {lines[0]}" if lines else name
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 2]} …"


@dataclass(slots=True)
class MemoryUse:
    """The bytes of one query: batches waiting for it in memory, and the state of its operators."""

    waiting: float = 0.0
    state: float = 0.0

    @property
    def total(self) -> int:
        return int(self.waiting + self.state)


def memory_use(wiring: Wiring, memory: Memory, outboxes: Mapping[str, Outbox]) -> dict[str, MemoryUse]:
    """The memory attributed to each query. Called under the lock.

    A batch is split equally among the readers that still have to read it, an operator and its queue among the queries
    that it serves. So the sum over all queries is the memory in use, and a slow query pays for what only it needs.
    """
    topology = wiring.topology
    found = {name: MemoryUse() for name in outboxes}
    # A batch waits in all queues of its fork: the share of one reader is computed once.
    shares: dict[int, float] = {}

    def share(queued: QueuedBatch) -> float:
        known = shares.get(queued.order)
        if known is None:
            known = shares[queued.order] = memory.size(queued) / queued.readers
        return known

    for edge, queue in enumerate(wiring.queues):
        served = topology.serves[topology.edges[edge].consumer]
        size = sum([share(item.queued) for item in queue if isinstance(item, Piece)])
        for query in served:
            found[topology.queries[query].name].waiting += size / len(served)
    for name, outbox in outboxes.items():
        found[name].waiting += sum([share(queued) for queued in outbox.waiting])
    for operator, stage in enumerate(wiring.stages):
        served = topology.serves[operator]
        for query in served:
            found[topology.queries[query].name].state += stage.live.state_bytes / len(served)
    return found


class QueryLimits:
    """Keeps each query within its memory limits. Every method is called under the lock while no grant runs.

    A check is due when memory has grown by a tenth of the lowest limit, and, because state grows unseen, after every 64
    grants: so checks cost almost nothing.
    """

    def __init__(self, limits: Limits, memory: Memory) -> None:
        self._limit = limits.query_memory
        self._ceiling = limits.query_ceiling
        lowest = min((limit for limit in (self._limit, self._ceiling) if limit is not None), default=0)
        self.active = lowest > 0
        self._step = lowest / 10
        self._memory = memory
        self._checked = 0
        self._calls = 0

    @property
    def due(self) -> bool:
        """Counts a grant; True if a check is due."""
        self._calls += 1
        return self._memory.bytes - self._checked > self._step or self._calls >= 64

    def plan_spills(self, wiring: Wiring, outboxes: Mapping[str, Outbox]) -> list[Spill]:
        """The spills that bring queries above their limit below it; the caller carries them out without the lock."""
        limit = self._limit
        if limit is None:
            return []
        planned = [
            self._memory.plan_spill(list(_waiting_for(wiring, outboxes, name)), int(use.waiting - LOW * limit))
            for name, use in memory_use(wiring, self._memory, outboxes).items()
            if use.waiting > limit
        ]
        return [spill for spill in planned if spill is not None]

    def exceeded(self, wiring: Wiring, outboxes: Mapping[str, Outbox]) -> dict[str, str]:
        """The queries above the ceiling, with the reason. Ends the check."""
        self._calls = 0
        self._checked = self._memory.bytes
        if self._ceiling is None:
            return {}
        return {
            name: f"it holds {use.total:,} bytes ({int(use.waiting):,} waiting, {int(use.state):,} state), "
            f"more than the ceiling of {self._ceiling:,}; give it a shorter window or a higher limit"
            for name, use in memory_use(wiring, self._memory, outboxes).items()
            if use.total > self._ceiling
        }


def _waiting_for(wiring: Wiring, outboxes: Mapping[str, Outbox], query: str) -> Iterator[QueuedBatch]:
    """The batches that wait for a query, alone or among others."""
    topology = wiring.topology
    for edge, queue in enumerate(wiring.queues):
        if any(topology.queries[q].name == query for q in topology.serves[topology.edges[edge].consumer]):
            yield from (item.queued for item in queue if isinstance(item, Piece))
    yield from outboxes[query].waiting

"""Who takes the memory: what each query is charged with, and what happens to one that takes too much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headgate.runtime.held import Held
from headgate.runtime.limits import Limits
from headgate.runtime.loop import Loop
from headgate.runtime.memory import Memory
from headgate.runtime.outbox import Outbox
from headgate.runtime.queue import Piece


@dataclass(slots=True)
class Charge:
    """The bytes of one query: what waits for it in memory, and the state of its operators."""

    waiting: float = 0.0
    state: float = 0.0

    @property
    def total(self) -> int:
        return int(self.waiting + self.state)


def charges(loop: Loop, memory: Memory, outboxes: Mapping[str, Outbox]) -> dict[str, Charge]:
    """What each query is charged with.

    A batch is charged in equal parts to those who still have to read it, and an operator and its queue to the queries
    that it serves. So all charges together are what is held, and who is slow pays for what only it still needs.
    """
    topology = loop.view.topology
    found = {name: Charge() for name in outboxes}
    # A batch waits in all queues of its fork: what one reader pays for it is worked out once.
    parts: dict[int, float] = {}

    def part(held: Held) -> float:
        known = parts.get(held.order)
        if known is None:
            known = parts[held.order] = memory.size(held) / held.readers
        return known

    for edge, queue in enumerate(loop.wiring.queues):
        served = topology.serves[topology.edges[edge].consumer]
        size = sum([part(item.held) for item in queue if isinstance(item, Piece)])
        for query in served:
            found[topology.queries[query].name].waiting += size / len(served)
    for name, outbox in outboxes.items():
        found[name].waiting += sum([part(held) for held in outbox.waiting])
    for operator, stage in enumerate(loop.wiring.stages):
        served = topology.serves[operator]
        for query in served:
            found[topology.queries[query].name].state += stage.live.state_bytes / len(served)
    return found


def waiting_for(loop: Loop, outboxes: Mapping[str, Outbox], query: str) -> Iterator[Held]:
    """The batches that wait for a query, alone or among others."""
    topology = loop.view.topology
    for edge, queue in enumerate(loop.wiring.queues):
        if any(topology.queries[q].name == query for q in topology.serves[topology.edges[edge].consumer]):
            yield from (item.held for item in queue if isinstance(item, Piece))
    yield from outboxes[query].waiting


class QueryLimits:
    """Watches that no query takes more memory than it may. Used under the network's lock.

    It looks when what is held has grown by a tenth of the lowest limit, and after every 64 grants for the sake of
    state, so that looking costs next to nothing.
    """

    def __init__(self, limits: Limits, memory: Memory) -> None:
        self._limit = limits.query_memory
        self._ceiling = limits.query_ceiling
        lowest = min((limit for limit in (self._limit, self._ceiling) if limit is not None), default=0)
        self.active = lowest > 0
        self._step = lowest / 10
        self._memory = memory
        self._seen = 0
        self._calls = 0

    @property
    def due(self) -> bool:
        self._calls += 1
        return self._memory.bytes - self._seen > self._step or self._calls >= 64

    def enforce(self, loop: Loop, outboxes: Mapping[str, Outbox]) -> dict[str, str]:
        """Spills for queries that are past their limit; gives those past the ceiling, and what to say of each."""
        self._calls = 0
        failed: dict[str, str] = {}
        for name, charge in charges(loop, self._memory, outboxes).items():
            if self._limit is not None and charge.waiting > self._limit:
                self._memory.spill(list(waiting_for(loop, outboxes, name)), int(charge.waiting - 0.9 * self._limit))
                charge = charges(loop, self._memory, outboxes)[name]
            if self._ceiling is not None and charge.total > self._ceiling:
                failed[name] = (
                    f"it holds {charge.total:,} bytes ({int(charge.waiting):,} waiting, {int(charge.state):,} state), "
                    f"more than the ceiling of {self._ceiling:,}; give it a shorter window or a higher limit"
                )
        self._seen = self._memory.bytes
        return failed

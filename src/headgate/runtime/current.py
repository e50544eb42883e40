"""What a query that is added finds: the current rows of the queries that update below it.

Operators that it shares with running queries have emitted their rows before it came, and emit a row again only when it
changes. So their current rows are put into the edges to the operators of the new query.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from headgate.operators.batch import Batch
from headgate.runtime.dataflow import Stage, Wiring
from headgate.runtime.state import NetworkState


@runtime_checkable
class Updating(Protocol):
    """A live operator whose rows replace earlier ones."""

    def current(self) -> list[Batch]:
        """The rows that it has emitted, as they are now."""
        ...


def feed_current_rows(state: NetworkState, added: Collection[str]) -> bool:
    """Puts current rows into the edges that lead from operators of other queries to those of the added ones alone; then
    `rebuild` follows. False if there are none."""
    wiring = state.wiring
    topology = wiring.topology
    new = {number for number, query in enumerate(topology.queries) if query.name in added}
    fed = False
    for number, edge in enumerate(topology.edges):
        if edge.producer is None or not new.issuperset(topology.serves[edge.consumer]):
            continue
        if new.issuperset(topology.serves[edge.producer]):
            continue
        for batch in _current(wiring, edge.producer):
            queued = state.memory.add(batch, 1, topology.operator_class[edge.consumer], True)
            wiring.queues[number].put(queued)
            fed = True
    return fed


def _current(wiring: Wiring, operator: int) -> list[Batch]:
    """The rows that an operator has emitted, as they are now: its own, or computed from those of the one below."""
    stage: Stage = wiring.stages[operator]
    if isinstance(stage.live, Updating):
        found = stage.live.current()
    elif stage.stateless and len(wiring.topology.inputs[operator]) == 1:
        below = wiring.topology.edges[wiring.topology.inputs[operator][0]].producer
        given = [] if below is None else _current(wiring, below)
        found = [made.materialized() for batch in given for made in stage.live.process(0, batch)]
    else:
        found = []
    return [batch for batch in found if batch.rows.num_rows]

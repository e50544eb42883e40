"""From the shared graph to live operators at their places, the edges between them, and their queues."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from headgate.graph.operators import Operator
from headgate.graph.shared import SharedGraph
from headgate.operators.contract import LiveOperator
from headgate.runtime.held import OUTBOX
from headgate.runtime.outbox import Outbox
from headgate.runtime.queue import EdgeQueue
from headgate.runtime.stage import Stage
from headgate.scheduling import Cut
from headgate.scheduling.graphs import topology_of

MakeLive = Callable[[Operator], LiveOperator]


def key_of(node: Operator) -> str:
    """A name for an operator that is the same in every process and whatever else is in the graph."""
    return hashlib.sha256(node.text.encode()).hexdigest()[:16]


class Wiring:
    """The stages and queues of a graph as it is now, numbered as its topology numbers them.

    A source is no stage: its edges come from the stream (see `topology_of`). Stages and queues of an earlier wiring
    are kept where they are still needed: they are known by keys that do not depend on the rest of the graph.
    """

    def __init__(
        self, graph: SharedGraph, outboxes: Mapping[str, Outbox], make: MakeLive, before: Wiring | None = None
    ) -> None:
        nodes = graph.operators
        self.topology, numbers = topology_of(graph)
        place = {n: index for index, n in enumerate(numbers)}
        keys = {n: key_of(nodes[n]) for n in numbers}
        self.edge_keys: list[str] = []
        for edge in self.topology.edges:
            producer = f"~{edge.stream}" if edge.producer is None else keys[numbers[edge.producer]]
            self.edge_keys.append(f"{producer}>{keys[numbers[edge.consumer]]}:{edge.port}")
        old = {} if before is None else {stage.key: stage for stage in before.stages}
        self.stages: list[Stage] = []
        for n in numbers:
            stage = old.get(keys[n]) or Stage(place[n], n, nodes[n].kind, keys[n], make(nodes[n]))
            stage.id, stage.number = place[n], n
            stage.outboxes = tuple(outboxes[q.name] for q in graph.outputs(n))
            self.stages.append(stage)
        kept: dict[str, EdgeQueue] = {} if before is None else dict(zip(before.edge_keys, before.queues, strict=True))
        self.queues: list[EdgeQueue] = [kept.pop(key) if key in kept else EdgeQueue() for key in self.edge_keys]
        self.left = list(kept.values())
        """Queues of the earlier wiring whose edges are gone; whoever made this wiring empties them."""

    def link(self, cut: Cut) -> None:
        """Tells every stage where its results go under a cut."""
        topology, stages = self.topology, self.stages
        for operator in reversed(topology.order):
            outs = [topology.edges[e] for e in topology.outputs[operator]]
            direct = tuple((stages[edge.consumer], edge.port) for edge in outs if edge.id not in cut.queued)
            queued = tuple(edge.id for edge in outs if edge.id in cut.queued)
            readers = [stages[topology.edges[e].consumer] for e in queued]
            highest = min((topology.operator_class[stage.id] for stage in readers), default=OUTBOX)
            stages[operator].link(direct, queued, readers, highest)

"""Chart policies: bottom-up chart partitioning over forks, for latency and for memory (001 §4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headgate.scheduling.charts import Partitioned, leaving_bytes, partition_graph
from headgate.scheduling.cut import Cut, Units
from headgate.scheduling.policy import GrantLimits, Policy, Selector
from headgate.scheduling.ranked import RankSelector
from headgate.scheduling.registry import register
from headgate.scheduling.view import View
from headgate.scheduling.yields import downstream, memory_slope, rank_by, result_slope

Buffer = int | str


def latency_partitions(view: View) -> Partitioned[int]:
    """Output completion charts: only results gain, so a path is never broken, but a fork may be."""
    topology, stats = view.topology, view.statistics

    def step(operator: int) -> tuple[float, float]:
        return stats.cost[operator], stats.selectivity[operator] * len(topology.results[operator])

    def branches(operator: int) -> Iterable[tuple[int, float]]:
        return [(k, stats.selectivity[operator]) for k in topology.consumers(operator)]

    roots = [o for o in topology.order if any(topology.edges[e].producer is None for e in topology.inputs[o])]
    return partition_graph(reversed(topology.order), roots, step, branches)


def memory_partitions(view: View) -> Partitioned[Buffer]:
    """Memory reduction charts. A node is a buffer (a stream, or what an operator writes): its step is the
    *fork-segment*, all operators that read it, because only the last of them frees the shared row."""
    topology, stats = view.topology, view.statistics

    def readers(buffer: Buffer) -> list[int]:
        edges = topology.stream_edges[buffer] if isinstance(buffer, str) else topology.outputs[buffer]
        return [topology.edges[e].consumer for e in edges]

    def step(buffer: Buffer) -> tuple[float, float]:
        first = readers(buffer)
        size = stats.bytes_in[first[0]] if isinstance(buffer, str) else stats.bytes_out[buffer]
        made = sum(stats.selectivity[o] * leaving_bytes(view, o) for o in first)
        return sum(stats.cost[o] for o in first), size - made

    def branches(buffer: Buffer) -> Iterable[tuple[Buffer, float]]:
        return [(o, stats.selectivity[o]) for o in readers(buffer) if topology.outputs[o]]

    written: list[Buffer] = [o for o in reversed(topology.order) if topology.outputs[o]]
    return partition_graph([*written, *topology.streams], list(topology.streams), step, branches)


@register()
@dataclass
class ChartLatency(GrantLimits, Policy):
    """Rank: results per second of the partition; inside it, the branch with the steeper chart goes first."""

    name: ClassVar[str] = "chart-latency"
    interval: float = 1.0

    def cut(self, view: View) -> Cut:
        topology = view.topology
        found = latency_partitions(view)
        parts = [found.members(head) for head in found.heads]
        queued = {edge.id for edge in topology.edges if edge.producer is None}
        for edge in topology.edges:
            # An operator behind a join is on several charts: the edge is direct only if all of them agree.
            if any(edge.producer in part and edge.consumer not in part for part in parts):
                queued.add(edge.id)
        cost, results = downstream(view)
        steepest = sorted(
            (edge.id for edge in topology.edges),
            key=lambda e: -results[topology.edges[e].consumer] / cost[topology.edges[e].consumer],
        )
        return Cut(frozenset(queued), order=tuple(steepest))

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return RankSelector(view, units, members, rank_by(result_slope), self.rows, self.quantum)

    def refresh(self, view: View, now: float) -> bool:
        return True


@register()
@dataclass
class ChartMemory(GrantLimits, Policy):
    """Rank: bytes freed per second of the partition. A fork's readers are always in one partition."""

    name: ClassVar[str] = "chart-memory"
    interval: float = 1.0

    def cut(self, view: View) -> Cut:
        topology = view.topology
        found = memory_partitions(view)
        parts = [found.members(head) for head in found.heads]
        readers: dict[Buffer, set[int]] = {
            name: {topology.edges[e].consumer for e in edges} for name, edges in topology.stream_edges.items()
        }
        readers.update({o: set(topology.consumers(o)) for o in topology.order if topology.outputs[o]})
        inside = [{o for buffer in part for o in readers[buffer]} for part in parts]
        queued = {edge.id for edge in topology.edges if edge.producer is None}
        for o in topology.order:
            if any(o in members and o not in part for part, members in zip(parts, inside, strict=True)):
                queued.update(topology.outputs[o])
        forks = [*topology.stream_edges.values(), *topology.outputs]
        together = frozenset(frozenset(f) for f in forks if len(f) > 1 and f[0] in queued)
        return Cut(frozenset(queued), together)

    def selector(self, view: View, units: Units, members: Sequence[int] | None = None) -> Selector:
        return RankSelector(view, units, members, rank_by(memory_slope), self.rows, self.quantum)

    def refresh(self, view: View, now: float) -> bool:
        return True

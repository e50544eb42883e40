"""Progress charts and their partitioning: the lower envelope of Chain, extended to forks (001 §2–§5).

A chart is a curve that falls as work is done: results not yet delivered (output completion) or bytes not yet
freed (memory reduction) over the time spent. Its slope is the gain of one second of work; the steepest
segments should run first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headgate.scheduling.errors import SchedulingError
from headgate.scheduling.topology import Topology
from headgate.scheduling.view import View

Node = TypeVar("Node", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Segment:
    """Steps `start` to `end` (exclusive) of a chart, run as one: `time` spent, `gain` made."""

    start: int
    end: int
    time: float
    gain: float

    @property
    def slope(self) -> float:
        return self.gain / self.time


def partition(steps: Sequence[tuple[float, float]]) -> list[Segment]:
    """The lower envelope of a chart given as steps of (time, gain): segments of falling slope.

    The same as picking, from each segment's start, the steepest line to any later point (001 §5): a step
    joins the segment before it as long as that makes the segment no less steep.

    >>> [(s.start, s.end) for s in partition([(10, 1), (1, 1), (9, 1)])]
    [(0, 2), (2, 3)]
    """
    segments: list[Segment] = []
    for place, (time, gain) in enumerate(steps):
        if not time > 0:
            raise SchedulingError(f"step {place} of the chart takes {time} s; every step must take time")
        last = Segment(place, place + 1, time, gain)
        while segments and last.slope >= segments[-1].slope:
            before = segments.pop()
            last = Segment(before.start, last.end, before.time + last.time, before.gain + last.gain)
        segments.append(last)
    return segments


@dataclass(frozen=True, slots=True)
class Path:
    """Operators one after another; `edges[i]` leads into `operators[i]`."""

    edges: tuple[int, ...]
    operators: tuple[int, ...]


def paths(topology: Topology) -> list[Path]:
    """The paths from every stream and every branch of a fork to the next fork or output.

    Without forks these are the leaf-to-root paths of 003 §4.1; operators behind a join are on several. A
    fork ends a path because its buffer is shared; so there are never more paths than edges.
    """
    found: list[Path] = []
    for first in topology.edges:
        if first.producer is not None and len(topology.outputs[first.producer]) == 1:
            continue
        edges, operators = [first.id], [first.consumer]
        while len(topology.outputs[operators[-1]]) == 1:
            edges.append(topology.outputs[operators[-1]][0])
            operators.append(topology.edges[edges[-1]].consumer)
        found.append(Path(tuple(edges), tuple(operators)))
    return found


def leaving_bytes(view: View, operator: int) -> float:
    """The bytes that a result row of an operator keeps in the system: none if no operator reads it (001 §2)."""
    return view.statistics.bytes_out[operator] if view.topology.outputs[operator] else 0.0


def memory_steps(view: View, path: Path) -> list[tuple[float, float]]:
    """The memory reduction chart of a path, per row at its start: (time, bytes freed) of each operator."""
    stats = view.statistics
    steps: list[tuple[float, float]] = []
    rows = 1.0
    size = stats.bytes_in[path.operators[0]]
    for operator in path.operators:
        made = rows * stats.selectivity[operator]
        after = made * leaving_bytes(view, operator)
        # No row reaches an operator behind selectivity 0; it must still take time to be on the chart.
        steps.append((max(rows, 1e-12) * stats.cost[operator], size - after))
        rows, size = made, after
    return steps


@dataclass(frozen=True)
class Partitioned(Generic[Node]):
    """The chart of a graph with forks: the nodes that each head absorbed, and the heads that remain."""

    taken: Mapping[Node, tuple[Node, ...]]
    heads: tuple[Node, ...]

    def members(self, head: Node) -> frozenset[Node]:
        """All nodes in the partition of a head."""
        found: set[Node] = set()
        todo = [head]
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo.extend(self.taken[node])
        return frozenset(found)


def partition_graph(
    bottom_up: Iterable[Node],
    roots: Iterable[Node],
    step: Callable[[Node], tuple[float, float]],
    branches: Callable[[Node], Iterable[tuple[Node, float]]],
) -> Partitioned[Node]:
    """Chart partitioning bottom up over nested forks (001 §4, Figs. 6–9).

    For each node: draw its own step (time, gain), then the segments of all its branches by falling slope,
    scaled by the rows that reach them; then absorb segments as long as the slope of the node's own segment
    does not fall. Absorbed segments are never separated again. Where branches meet again, a segment
    is found twice with the same slope, and its parts add up.
    """
    charts: dict[Node, dict[Node, tuple[float, float]]] = {}
    taken: dict[Node, tuple[Node, ...]] = {}
    depth: dict[Node, int] = {}
    for place, node in enumerate(bottom_up):
        depth[node] = -place
        time, gain = step(node)
        rest: dict[Node, tuple[float, float]] = {}
        for child, scale in branches(node):
            for head, (t, g) in charts[child].items():
                before = rest.get(head, (0.0, 0.0))
                rest[head] = (before[0] + scale * t, before[1] + scale * g)
        order = sorted((h for h in rest if rest[h][0] > 0), key=lambda h: (-rest[h][1] / rest[h][0], depth[h]))
        absorbed = 0
        for head in order:
            t, g = rest[head]
            if g / t < gain / time:
                break
            time, gain, absorbed = time + t, gain + g, absorbed + 1
        taken[node] = tuple(order[:absorbed])
        # Segments that no row reaches (selectivity 0) remain, with no time.
        left = order[absorbed:] + [h for h in rest if not rest[h][0] > 0]
        charts[node] = {node: (time, gain), **{h: rest[h] for h in left}}
    heads: dict[Node, None] = {}
    for root in roots:
        heads.update(dict.fromkeys(charts[root]))
    return Partitioned(taken, tuple(heads))

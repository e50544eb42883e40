"""Where the boxes of a graph go: layers from left to right, few crossings, no overlapping boxes.

After Sugiyama, Tagawa and Toda (1981): layer by longest path, bends where an edge passes a layer, order within a
layer by the mean place of the neighbours, then heights by the same mean with gaps kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS = 12
GAP = 18.0
CHANNEL = 70.0
BEND = 10.0


@dataclass(frozen=True)
class Box:
    """A place for a node: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True)
class Layout:
    """Boxes by node, and for each edge the points it passes between its two boxes: the first is the end of the layer
    that it starts from, so that it bends beside the boxes, not over them.
    """

    boxes: Mapping[Hashable, Box]
    bends: Mapping[tuple[Hashable, Hashable], Sequence[tuple[float, float]]]
    width: float
    height: float


def layout(
    sizes: Mapping[Hashable, tuple[float, float]],
    edges: Sequence[tuple[Hashable, Hashable]],
    last: frozenset[Hashable] = frozenset(),
) -> Layout:
    """Places nodes of these sizes (width, height); nodes in `last` stand in the last layer."""
    layer = _layers(sizes, edges, last)
    chains = _chains(edges, layer)
    ranks: dict[int, list[Hashable]] = defaultdict(list)
    for node, rank in layer.items():
        ranks[rank].append(node)
    before: dict[Hashable, list[Hashable]] = defaultdict(list)
    after: dict[Hashable, list[Hashable]] = defaultdict(list)
    for chain in chains.values():
        for one, other in pairwise(chain):
            after[one].append(other)
            before[other].append(one)
    order = [ranks[rank] for rank in sorted(ranks)]
    _uncross(order, before, after)
    heights = {node: sizes[node][1] if node in sizes else BEND for node in layer}
    tops = _heights(order, heights, before, after)
    boxes: dict[Hashable, Box] = {}
    ends: dict[Hashable, float] = {}
    x = 0.0
    for nodes in order:
        width = max((sizes[n][0] for n in nodes if n in sizes), default=0.0)
        for node in nodes:
            boxes[node] = Box(x, tops[node], sizes[node][0] if node in sizes else width, heights[node])
            ends[node] = x + width
        x += width + CHANNEL
    bends = {
        edge: [
            (ends[edge[0]], boxes[edge[0]].middle),
            *(point for node in chain[1:-1] for point in _through(boxes[node])),
        ]
        for edge, chain in chains.items()
    }
    height = max((box.y + box.height for box in boxes.values()), default=0.0)
    return Layout({node: boxes[node] for node in sizes}, bends, x - CHANNEL, height)


def _through(box: Box) -> list[tuple[float, float]]:
    return [(box.x, box.middle), (box.x + box.width, box.middle)]


def _layers(
    sizes: Mapping[Hashable, tuple[float, float]],
    edges: Sequence[tuple[Hashable, Hashable]],
    last: frozenset[Hashable],
) -> dict[Hashable, int]:
    layer: dict[Hashable, int] = dict.fromkeys(sizes, 0)
    # Longest paths: at most as many rounds as there are nodes in a row.
    changed = True
    while changed:
        changed = False
        for one, other in edges:
            if layer[other] <= layer[one]:
                layer[other] = layer[one] + 1
                changed = True
    end = max(layer.values(), default=0)
    for node in last:
        layer[node] = end
    return layer


def _chains(
    edges: Sequence[tuple[Hashable, Hashable]], layer: dict[Hashable, int]
) -> dict[tuple[Hashable, Hashable], list[Hashable]]:
    """Each edge as nodes in adjacent layers; the bends are added to `layer`."""
    chains: dict[tuple[Hashable, Hashable], list[Hashable]] = {}
    for one, other in edges:
        chain: list[Hashable] = [one]
        for rank in range(layer[one] + 1, layer[other]):
            bend = ("bend", one, other, rank)
            layer[bend] = rank
            chain.append(bend)
        chains[one, other] = [*chain, other]
    return chains


def _uncross(
    order: list[list[Hashable]],
    before: Mapping[Hashable, list[Hashable]],
    after: Mapping[Hashable, list[Hashable]],
) -> None:
    place: dict[Hashable, float] = {}
    for nodes in order:
        place.update({node: float(i) for i, node in enumerate(nodes)})
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        for nodes in order if forward else reversed(order):
            near = before if forward else after
            mean = {n: sum(place[m] for m in near[n]) / len(near[n]) if near.get(n) else place[n] for n in nodes}
            nodes.sort(key=lambda n: mean[n])
            place.update({node: float(i) for i, node in enumerate(nodes)})


def _heights(
    order: list[list[Hashable]],
    heights: Mapping[Hashable, float],
    before: Mapping[Hashable, list[Hashable]],
    after: Mapping[Hashable, list[Hashable]],
) -> dict[Hashable, float]:
    middle: dict[Hashable, float] = {}
    for nodes in order:
        y = 0.0
        for node in nodes:
            middle[node] = y + heights[node] / 2
            y += heights[node] + GAP
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        for nodes in order if forward else reversed(order):
            near = before if forward else after
            wish = {n: sum(middle[m] for m in near[n]) / len(near[n]) if near.get(n) else middle[n] for n in nodes}
            _settle(nodes, wish, heights, middle)
    least = min((middle[n] - heights[n] / 2 for n in middle), default=0.0)
    return {n: middle[n] - heights[n] / 2 - least for n in middle}


def _settle(
    nodes: list[Hashable],
    wish: Mapping[Hashable, float],
    heights: Mapping[Hashable, float],
    middle: dict[Hashable, float],
) -> None:
    """Places the nodes of a layer as near to their preferred positions as their order and the gaps allow.

    Nodes that would touch become one block, placed at the mean of their preferred positions (pool adjacent violators).
    """
    blocks: list[tuple[float, int, list[float]]] = []
    offset = 0.0
    offsets: list[float] = []
    for i, node in enumerate(nodes):
        offset += (heights[nodes[i - 1]] + heights[node]) / 2 + GAP if i else 0.0
        offsets.append(offset)
        blocks.append((wish[node] - offset, 1, [wish[node] - offset]))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            _, count, wishes = blocks.pop()
            _, count_before, wishes_before = blocks.pop()
            together = wishes_before + wishes
            blocks.append((sum(together) / len(together), count + count_before, together))
    at = 0
    for start, count, _ in blocks:
        for i in range(at, at + count):
            middle[nodes[i]] = start + offsets[i]
        at += count

"""Turns of lanes: which of several waiting batches gets the next epoch, and which streams share a lane.

Streams of different classes are read by different lanes, so that rows of a lower class wait in their source, and not
before the rows of a higher one. Lanes get epochs in proportion to the priorities of their classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headgate.graph.operators import Operator, Source
from headgate.graph.queries import Query, QueryClass


@dataclass(frozen=True)
class StreamGroup:
    """Streams that share a lane, in order, and the highest class that reads them."""

    streams: tuple[str, ...]
    cls: QueryClass


def streams_of(query: Query) -> list[str]:
    """The streams that a query reads, each once."""
    return list(dict.fromkeys(_sources(query.plan)))


def groups_by_class(streams: Iterable[str], queries: Iterable[Query]) -> list[StreamGroup]:
    """Groups streams by the highest class that reads them; the highest class first.

    Streams that one query reads stay together: its rows come in one epoch.
    """
    root = {stream: stream for stream in streams}

    def find(stream: str) -> str:
        while root[stream] != stream:
            stream = root[stream]
        return stream

    best: dict[str, QueryClass] = {}
    for query in queries:
        read = [stream for stream in streams_of(query) if stream in root]
        for stream in read:
            if stream not in best or query.cls.priority > best[stream].priority:
                best[stream] = query.cls
            root[find(stream)] = find(read[0])
    highest: dict[str, QueryClass] = {}
    for stream in root:
        group, cls = find(stream), best.get(stream)
        if cls is not None and (group not in highest or cls.priority > highest[group].priority):
            highest[group] = cls
    found: dict[int, tuple[list[str], QueryClass]] = {}
    for stream in root:
        cls = highest[find(stream)]
        found.setdefault(cls.priority, ([], cls))[0].append(stream)
    return [StreamGroup(tuple(names), cls) for _, (names, cls) in sorted(found.items(), reverse=True)]


class LaneTurns:
    """Gives lanes shares of the time in proportion to their weights: the lane that has used the least of its share is
    next. A lane that had nothing to bring does not save up.

    >>> turns = LaneTurns()
    >>> weights = {"fast": 3, "slow": 1}
    >>> order = []
    >>> for _ in range(8):
    ...     order.append(turns.next(weights))
    ...     turns.used(order[-1], 0.1, weights)
    >>> order.count("fast")
    6
    """

    def __init__(self) -> None:
        self._used: dict[str, float] = {}
        self._now = 0.0

    def next(self, waiting: Mapping[str, float]) -> str:
        """The lane that is next, of those that wait, with their weights; of several, the one of the highest weight."""
        for lane in waiting:
            self._used[lane] = max(self._used.get(lane, 0.0), self._now)
        chosen = min(waiting, key=lambda lane: (self._used[lane], -waiting[lane]))
        self._now = self._used[chosen]
        return chosen

    def used(self, lane: str, seconds: float, weights: Mapping[str, float]) -> None:
        """The epoch of a lane took so long."""
        self._used[lane] = self._used.get(lane, 0.0) + seconds / weights[lane]


def _sources(node: Operator) -> Iterator[str]:
    if isinstance(node, Source):
        yield node.stream
    for each in node.inputs:
        yield from _sources(each)

"""Drops rows that no query selects before they go to the worker: the disjunction of the queries' first selections.

Dropping a row must not change any result. So a stream is filtered only if every query over it begins with a selection,
and none of them uses event time: a dropped row no longer advances the watermark. Malformed rows are kept, as they go to
the dead letters.

It pays if a stream brings many rows of which few are selected: with 1 row in 100 kept, an epoch took half the time per
row; with all kept it took longer. So a stream is filtered once the worker reports many rows and few selected ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headgate.graph.operators import Operator, Select, Source
from headgate.graph.queries import Query
from headgate.spark.packing import FLAW, Packing
from headgate.spark.spark_conditions import conjunction, of_stream
from headgate.spark.spark_errors import JobLost, job_error

MOST = 16
"""With more different selections than this, testing them costs as much as carrying the row."""

MANY = 20_000
"""Rows of a stream in one epoch from which filtering is worthwhile."""

FEW = 0.5
"""The share of its rows, counted once for each query that keeps it, below which a stream is filtered."""

AGAIN = 600.0
"""Seconds after which a filtered stream is left unfiltered, to measure whether filtering still pays. A change restarts
the lane."""


class Prefilter:
    """Filters the frames of any lanes, streaming frames and micro-batches, where it pays. Used by one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[int, tuple[Packing, tuple[Query, ...], frozenset[str], str | None]] = {}
        self._pays: dict[str, float] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        self._raised: frozenset[str] = frozenset()

    def filter(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> Any:
        """The rows of a frame, laid out by its packing, without those that none of these queries selects."""
        kept = self.condition(frame, packing, queries)
        return frame if kept is None else frame.where(kept)

    def condition(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> str | None:
        """The condition of `filter` as Spark SQL; None if it keeps all rows."""
        streams = (frozenset(self._pays) & frozenset(packing.streams)) - self._raised
        if not streams:
            return None
        known = self._known.get(id(packing))
        if known is None or known[:3] != (packing, queries, streams):
            known = self._known[id(packing)] = (packing, queries, streams, condition(frame, packing, queries, streams))
        return known[3]

    def raised(self, frame: Any, packing: Packing) -> bool:
        """After a job over the filtered micro-batch has failed: whether the filter itself raised. The streams that it
        filtered are then never filtered again: the host evaluates their selections, each for its own query.

        `frame` is the micro-batch before the filter.
        """
        known = self._known.get(id(packing))
        if known is None or known[3] is None or not known[2] - self._raised:
            return False
        try:
            if job_error(frame.where(known[3])) is None or job_error(frame) is not None:
                return False
        except JobLost:
            return False
        self._raised |= known[2]
        return True

    def report(self, selected: Mapping[str, tuple[int, int]]) -> bool:
        """After an epoch: the rows of each stream so far, and those that its first selections kept.

        True if other streams are filtered from now on.
        """
        filtered = set(self._pays)
        for stream, (rows, kept) in selected.items():
            before = self._counted.get(stream, (0, 0))
            self._counted[stream] = (rows, kept)
            came = rows - before[0]
            if stream not in filtered and came >= MANY and kept - before[1] < FEW * came:
                self._pays[stream] = self._clock() + AGAIN
        for stream in filtered:
            if self._clock() >= self._pays[stream]:
                del self._pays[stream]
        return set(self._pays) != filtered


def condition(frame: Any, packing: Packing, queries: tuple[Query, ...], streams: frozenset[str]) -> str | None:
    """Spark SQL over the packed table that is true for every row which must be kept, where only rows of these streams
    may be dropped; None if all must be kept."""
    wanted: dict[str, list[Select | None]] = {stream: [] for stream in packing.streams}
    for query in queries:
        timeless = not any(node.uses_event_time for node in query.plan.walk())
        for stream, select in _entries(query.plan):
            if stream in wanted:
                wanted[stream].append(select if timeless else None)
    kept: list[str] = []
    for stream, selects in wanted.items():
        mine = of_stream(packing, stream)
        if stream not in streams:
            kept.append(mine)
            continue
        asked = {None if select is None else select.predicates for select in selects}
        if None in asked or len(asked) > MOST:
            kept.append(mine)
            continue
        tests = {conjunction(predicates or (), frame, packing, stream) for predicates in asked}
        if "TRUE" in tests:
            kept.append(mine)
        elif tests:
            kept.append(f"({mine} AND ({' OR '.join(f'({test})' for test in sorted(tests))}))")
    if kept == [of_stream(packing, stream) for stream in packing.streams]:
        return None
    if packing.flawed:
        kept.append(f"{FLAW} IS NOT NULL")
    return " OR ".join(kept) or "FALSE"


def _entries(node: Operator, above: Operator | None = None) -> Iterator[tuple[str, Select | None]]:
    """Each place where a plan reads a stream: the stream, and the selection that its rows come to first."""
    if isinstance(node, Source):
        yield node.stream, above if isinstance(above, Select) else None
    for each in node.inputs:
        yield from _entries(each, node)

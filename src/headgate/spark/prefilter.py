"""Drops rows that no query wants before they go to the worker: the disjunction of the queries' first selections.

Dropping a row must change nothing but the time it takes. So a stream is left alone unless every query over it begins
with a selection, and none of them minds event time: what a dropped row would have done to the watermark goes with it.
Malformed rows are kept, as they go to the dead letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.graph.operators import Lookup, Operator, Project, Select, Source, Split, Union
from headgate.graph.queries import Query
from headgate.spark.packing import FLAW, Packing
from headgate.spark.slots import conjunction, of_stream

MOST = 16
_TIMELESS = (Source, Select, Project, Union, Split, Lookup)


class Prefilter:
    """Filters the frames of any lanes. Used by one thread at a time."""

    def __init__(self) -> None:
        self._known: tuple[Packing, tuple[Query, ...], str | None] | None = None

    def filter(self, frame: Any, packing: Packing, queries: tuple[Query, ...]) -> Any:
        """A micro-batch, laid out by its packing, without the rows that none of these queries wants."""
        known = self._known
        if known is None or known[0] is not packing or known[1] is not queries:
            known = self._known = (packing, queries, condition(frame, packing, queries))
        return frame if known[2] is None else frame.where(known[2])


def condition(frame: Any, packing: Packing, queries: tuple[Query, ...]) -> str | None:
    """Spark SQL over the packed table that is true for every row which must be kept; None if all must."""
    wanted: dict[str, list[Select | None]] = {stream: [] for stream in packing.streams}
    for query in queries:
        timeless = all(isinstance(node, _TIMELESS) for node in _nodes(query.plan))
        for stream, select in _entries(query.plan):
            if stream in wanted:
                wanted[stream].append(select if timeless else None)
    kept: list[str] = []
    for stream, selects in wanted.items():
        mine = of_stream(packing, stream)
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


def _nodes(node: Operator) -> Iterator[Operator]:
    yield node
    for each in node.inputs:
        yield from _nodes(each)


def _entries(node: Operator, above: Operator | None = None) -> Iterator[tuple[str, Select | None]]:
    """Each place where a plan reads a stream: the stream, and the selection that its rows come to first."""
    if isinstance(node, Source):
        yield node.stream, above if isinstance(above, Select) else None
    for each in node.inputs:
        yield from _entries(each, node)

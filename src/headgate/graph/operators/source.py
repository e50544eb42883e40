"""The rows of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.graph.event_times import EventTime, EventTimes
from headgate.graph.operators.operator import Operator

INTERNAL = "/"
"""Part of the name of every stream between the fragments of a divided query."""


@dataclass(frozen=True, eq=False)
class Source(Operator):
    """The rows of a stream. `time` is the position of its event time, `delay` how late a row may be."""

    stream: str
    time: int | None = None
    delay: int = 0

    def times(self, inputs: Sequence[EventTimes]) -> EventTimes:
        return {} if self.time is None else {self.time: EventTime()}

    @property
    def detail(self) -> str:
        return self.stream


def source_of(node: Operator) -> Source | None:
    """The source whose batches an operator passes on, perhaps with fewer rows; None if it computes new ones."""
    while node.passes_batches:
        (node,) = node.inputs
    return node if isinstance(node, Source) else None

"""The rows of streams as Spark reads them, and what the lanes need to open them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headgate.graph.queries import Stream
from headgate.graph.types import Schema


class SourceError(ValueError):
    """A stream cannot be read; the message names the stream and what to write."""


@dataclass(frozen=True)
class SourceRows:
    """The rows of one stream, or of several that are read as one source.

    `flaw` is Spark SQL that is not null for a malformed row: its raw text. `member` is Spark SQL for the position, in
    the group, of the stream that a row belongs to; None if the group has one stream. `folders`: local folders, or
    patterns of folders, in which a file must appear before there are new rows; None if rows come from elsewhere.
    `valid`: all texts are valid UTF-8, as Spark's parsers make them.
    """

    frame: Any
    flaw: str | None = None
    member: str | None = None
    folders: tuple[str, ...] | None = None
    valid: bool = False


class StreamOpener(Protocol):
    """Opens declared streams as streaming DataFrames."""

    def group_key(self, stream: Stream) -> object:
        """Streams with equal keys that do not overlap can be read as one source; None if this one is read alone.

        One source for many streams is one listing, one log and one scan a trigger instead of one each: with 27 streams
        that is most of a trigger's time.
        """
        ...

    def overlap(self, one: Stream, other: Stream) -> bool:
        """Whether two streams with equal keys may have rows in common. In one source a row belongs to one stream."""
        ...

    def limit(self, stream: Stream) -> Mapping[str, str]:
        """Options that limit the rows of a trigger, so that its epoch is short; empty if the source has none."""
        ...

    def open(self, streams: Sequence[Stream]) -> SourceRows:
        """The rows of one stream, or of several with the same key that do not overlap; SourceError if they cannot be
        read."""
        ...


def stream_of(name: str, frame: Any) -> Stream:
    """A streaming DataFrame as a declared stream; `withWatermark` gives its event time."""
    from headgate.spark.types import to_arrow  # which imports PySpark: `headgate check` starts without

    columns = [(part.name, to_arrow(part.dataType)) for part in frame.schema.fields]
    event: int | None = None
    delay = 0
    for place, part in enumerate(frame.schema.fields):
        if "spark.watermarkDelayMs" in part.metadata:
            event, delay = place, int(part.metadata["spark.watermarkDelayMs"]) * 1000
    return Stream(name, Schema.of(*columns), event, delay, "dataframe")

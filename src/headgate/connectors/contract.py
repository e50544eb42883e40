"""What a connector is: a stream's source, a static table or a sink, each described by one class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from typing import Literal as OneOf

from headgate.graph.options import OptionProblem, OptionSet
from headgate.graph.queries import Query, Stream, Table
from headgate.graph.types import Schema
from headgate.spark.results import HostWriter, Writer
from headgate.spark.source_rows import SourceRows

MEMBER = "_headgate_member"


class Connector(ABC):  # noqa: B024 - each kind has its own abstract method
    """What sources, tables and sinks have in common. A class without a name is not offered to users."""

    name: str = ""
    about: str = ""
    """One line for the documentation."""
    options: OptionSet = OptionSet()
    example: str = ""
    """Options that work, as SQL; `{folder}` stands for a folder that exists."""

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        """The problem with options that are each valid on their own, for rows with these columns; None if none."""
        del options, schema
        return None


@dataclass(frozen=True)
class Guarantee:
    """How often a row or a result arrives after crashes, by what means, and the test that shows it."""

    exactly_once: bool
    means: str
    test: str = "tests/connectors/test_restarts.py::test_what_sinks_hold_after_a_crash"

    def __str__(self) -> str:
        return f"{'exactly' if self.exactly_once else 'at least'} once: {self.means}"


@dataclass(frozen=True)
class SourceGroup:
    """The options by which streams are read as one source, and the column that distinguishes their rows."""

    options: dict[str, str]
    tag: list[str] = field(default_factory=list)
    member: str | None = None


class StreamSource(Connector):
    """A source of streams.

    `together` is the option by which Spark reads several streams as one source: a folder or a topic. `limit`: options
    for a stream of a lower class that limit a trigger to rows for a fraction of a second. `guarantee`: how often
    queries see a row after crashes.
    """

    together: str | None = None
    limit: Mapping[str, str] = MappingProxyType({})
    guarantee: Guarantee = Guarantee(
        True,
        "the commit of an epoch names the rows that it has read, and Spark reads what is not committed again",
        "tests/crash/test_formats.py::test_generated_rows_arrive_once",
    )

    @abstractmethod
    def open(self, spark: Any, streams: Sequence[Stream]) -> SourceRows:
        """A streaming DataFrame with the declared columns, of one stream or of several with the same `group_key`."""

    def group_key(self, stream: Stream) -> object:
        """See `StreamOpener`."""
        place = stream.options.get(self.together or "")
        if place is None or any(sign in place for sign in "*?[]{},\\"):
            return None
        rest = tuple(sorted((key, value) for key, value in stream.options.items() if key != self.together))
        return (self.name, stream.schema.names, stream.schema, rest)

    def overlap(self, one: Stream, other: Stream) -> bool:
        """See `StreamOpener`."""
        return self.together is not None and one.options[self.together].strip() == other.options[self.together].strip()

    def combine(self, spark: Any, values: Sequence[str]) -> tuple[str, list[str]]:
        """One value of the option `together` for several that do not overlap, and Spark SQL that is true for the rows
        of each."""
        del spark
        raise NotImplementedError(f"{self.name} reads each stream alone")

    def group(self, spark: Any, streams: Sequence[Stream]) -> SourceGroup:
        """How several streams are read as one."""
        options = dict(streams[0].options)
        if len(streams) == 1:
            return SourceGroup(options)
        assert self.together is not None
        options[self.together], tests = self.combine(spark, [stream.options[self.together] for stream in streams])
        cases = " ".join(f"WHEN {test} THEN {number}" for number, test in enumerate(tests))
        return SourceGroup(options, [f"CASE {cases} END AS {MEMBER}"], f"`{MEMBER}`")


class StaticTable(Connector):
    """A table that is read once, for joins with streams.

    `versioned`: `versions` tells when its rows have changed; otherwise the files below the option `path` do.
    """

    versioned: bool = False

    @abstractmethod
    def open(self, spark: Any, table: Table) -> Any:
        """A DataFrame with the declared columns."""

    def versions(self, spark: Any, table: Table) -> Callable[[], object] | None:
        """A function that returns another value when the rows of a table have changed; None if it is not versioned."""
        del spark, table
        return None


class ResultSink(Connector):
    """A destination of results.

    `written_by` says which processes write it, and so which kind of writer `open` returns: the `driver` (few rows:
    `DriverWriter`), the `hosts`, which produce the results (folders: `HostWriter`), or Spark's `executors`, which read
    the outbox (`ExecutorWriter`).
    """

    replaces_rows: bool = False
    guarantee: Guarantee
    written_by: OneOf["driver", "hosts", "executors"] = "driver"

    @abstractmethod
    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        """A writer for one query, in the driver; SinkError if it cannot be opened.

        `run` identifies the checkpoint: two runs that write to the same place never use the same names.
        """

    def newest(self, options: Mapping[str, str], kept: int) -> int | None:
        """For a sink that the driver writes: how many of an append query's newest rows in an epoch it needs; None: all.

        `kept` is the number of newest rows that `engine.results` keeps.
        """
        del options, kept
        return None

    def host_writer(self, query: str, options: Mapping[str, str], run: str, part: str) -> HostWriter:
        """For a sink that hosts write: its writer in a host; creates nothing yet. `part` names the host's replica."""
        raise NotImplementedError(f"{self.name} is not written by hosts")


def quoted(text: str) -> str:
    """A text escaped for a Spark SQL string literal."""
    return text.replace("\\", "\\\\").replace("'", "\\'")

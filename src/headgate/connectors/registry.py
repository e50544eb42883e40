"""Finds the connectors of this package and opens streams, tables and sinks with them."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import headgate.connectors
from headgate.connectors.contract import ResultSink, StaticTable, StreamSource
from headgate.connectors.folder import FolderWriter
from headgate.connectors.json import json_lines
from headgate.connectors.memory import MemorySink
from headgate.connectors.spark_format import SparkFormatSink, SparkFormatSource, SparkFormatTable
from headgate.graph.options import Connectors
from headgate.graph.queries import Query, Sink, Stream, Table
from headgate.graph.secrets import MissingVariable, resolved
from headgate.spark.delivery import Delivery, HostShare
from headgate.spark.messages import DEAD
from headgate.spark.results import HostWriter, SinkError, Writer
from headgate.spark.source_rows import SourceError, SourceRows

_Source = TypeVar("_Source", Stream, Table)


@cache
def sources() -> dict[str, StreamSource]:
    """The sources by name."""
    return {found.name: found for found in _found(StreamSource)}


@cache
def tables() -> dict[str, StaticTable]:
    """The formats of static tables by name."""
    return {found.name: found for found in _found(StaticTable)}


@cache
def sinks() -> dict[str, ResultSink]:
    """The sinks by name."""
    return {found.name: found for found in _found(ResultSink)}


def connectors() -> Connectors:
    """The declarations that the SQL checker uses."""
    return Connectors(sources(), tables(), sinks())


class SparkStreams:
    """Opens streams on a Spark session (the `StreamOpener` of the lanes). A format without a class here is Spark's."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def group_key(self, stream: Stream) -> object:
        return _source(stream).group_key(stream)

    def overlap(self, one: Stream, other: Stream) -> bool:
        return _source(one).overlap(one, other)

    def limit(self, stream: Stream) -> Mapping[str, str]:
        return _source(stream).limit

    def open(self, streams: Sequence[Stream]) -> SourceRows:
        return _source(streams[0]).open(self._spark, [_with_secrets(stream, "stream") for stream in streams])


def open_table(spark: Any, table: Table) -> Any:
    """A static table as a DataFrame with the declared columns."""
    return (tables().get(table.source.lower()) or SparkFormatTable()).open(spark, _with_secrets(table, "table"))


def versions_of(spark: Any, table: Table) -> Callable[[], object] | None:
    """What tells that the rows of a static table have changed; None if it has no versions."""
    known = tables().get(table.source.lower())
    return None if known is None else known.versions(spark, _with_secrets(table, "table"))


def open_sink(spark: Any, query: Query, sink: Sink, run: str) -> Writer:
    """The writer of one sink of a query; SinkError if it cannot be opened."""
    try:
        options = resolved(sink.options)
    except MissingVariable as error:
        raise SinkError(f"query {query.name}: sink {sink.format}: {error}") from error
    return _sink(sink).open(spark, query, options, run)


def dead_letters(folder: str, run: str, part: str = "") -> FolderWriter:
    """The writer of malformed rows. The folder is created with the first of them."""
    return FolderWriter(DEAD, f"rows-{run}", folder, json_lines(), "json", part=part)


class RegisteredSinks:
    """The sinks of a plan as its hosts see them (the `Opener` that the engine puts into `Delivery`)."""

    def __init__(self, delivery: Delivery, run: str, replica: int) -> None:
        self._delivery = delivery
        self._run = run
        self._part = f"-r{replica}" if replica else ""

    def share(self, query: Query) -> HostShare:
        folders: list[HostWriter] = []
        driver = executors = False
        newest: list[int] = []
        for sink in query.sinks:
            known = _sink(sink)
            if known.written_by == "hosts":
                options = {**sink.options, **self._absolute(sink.options)}
                folders.append(known.host_writer(query.name, options, self._run, self._part))
            elif known.written_by == "executors":
                executors = True
            elif (rows := known.newest(sink.options, self._delivery.kept)) is None:
                driver = True
            else:
                newest.append(rows)
        # The engine keeps the newest rows even without INTO memory.
        most = max(newest, default=MemorySink().newest({}, self._delivery.kept))
        return HostShare(tuple(folders), driver, executors, None if query.mode == "update" else most)

    def dead_letters(self) -> HostWriter:
        return dead_letters(_within(self._delivery.base, self._delivery.dead_letters), self._run, self._part)

    def _absolute(self, options: Mapping[str, str]) -> dict[str, str]:
        path = options.get("path")
        return {} if path is None else {"path": _within(self._delivery.base, path)}


def _with_secrets(declared: _Source, kind: str) -> _Source:
    """A stream or table with the environment variables in its options resolved."""
    try:
        options = resolved(declared.options)
    except MissingVariable as error:
        raise SourceError(f"{kind} {declared.name}: source {declared.source}: {error}") from error
    return declared if options == declared.options else replace(declared, options=options)


def _source(stream: Stream) -> StreamSource:
    return sources().get(stream.source.lower()) or SparkFormatSource()


def _sink(sink: Sink) -> ResultSink:
    return sinks().get(sink.format.lower()) or SparkFormatSink(sink.format)


def _within(base: str, path: str) -> str:
    """A path or URI that means the same in every working directory.

    >>> _within("/home/u", "out"), _within("/home/u", "/tmp/out"), _within("/home/u", "s3://bucket/out")
    ('/home/u/out', '/tmp/out', 's3://bucket/out')
    """
    return path if "://" in path else os.path.join(base, path)


def _found(kind: type) -> Iterator[Any]:
    """One object of every named class of a kind, in the order of the module names."""
    for module in pkgutil.iter_modules(headgate.connectors.__path__):
        loaded = importlib.import_module(f"{headgate.connectors.__name__}.{module.name}")
        for found in vars(loaded).values():
            own = inspect.isclass(found) and found.__module__ == loaded.__name__
            if own and issubclass(found, kind) and found.name and not inspect.isabstract(found):
                yield found()

"""Finds the connectors of this package and opens streams, tables and sinks with them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import headgate.connectors
from headgate.connectors.contract import ResultSink, StaticTable, StreamSource
from headgate.connectors.spark_format import SparkFormatSink, SparkFormatSource, SparkFormatTable
from headgate.graph.options import Connectors
from headgate.graph.queries import Query, Sink, Stream, Table
from headgate.spark.results import Writer
from headgate.spark.source_rows import SourceRows


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

    def open(self, streams: Sequence[Stream]) -> SourceRows:
        return _source(streams[0]).open(self._spark, streams)


def open_table(spark: Any, table: Table) -> Any:
    """A static table as a DataFrame with the declared columns."""
    return (tables().get(table.source.lower()) or SparkFormatTable()).open(spark, table)


def open_sink(spark: Any, query: Query, sink: Sink, run: str) -> Writer:
    """The writer of one sink of a query; SinkError if it cannot be opened."""
    known = sinks().get(sink.format.lower()) or SparkFormatSink(sink.format)
    return known.open(spark, query, sink.options, run)


def _source(stream: Stream) -> StreamSource:
    return sources().get(stream.source.lower()) or SparkFormatSource()


def _found(kind: type) -> Iterator[Any]:
    """One object of every named class of a kind, in the order of the module names."""
    for module in pkgutil.iter_modules(headgate.connectors.__path__):
        loaded = importlib.import_module(f"{headgate.connectors.__name__}.{module.name}")
        for found in vars(loaded).values():
            own = inspect.isclass(found) and found.__module__ == loaded.__name__
            if own and issubclass(found, kind) and found.name and not inspect.isabstract(found):
                yield found()

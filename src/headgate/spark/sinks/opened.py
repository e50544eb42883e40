"""Opens the sink that a query asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headgate.graph.queries import Query, Sink
from headgate.spark.sinks.called import CallbackWriter
from headgate.spark.sinks.console import ConsoleWriter
from headgate.spark.sinks.contract import Writer
from headgate.spark.sinks.files import FolderWriter
from headgate.spark.sinks.memory import MemoryWriter
from headgate.spark.sinks.table import SparkWriter

FORMATS = ("callback", "console", "csv", "json", "memory", "parquet")
"""The sinks that need no Spark format; every other name is one."""

_functions: dict[str, Callable[[pa.Table], object]] = {}


def callback(function: Callable[[pa.Table], object]) -> Sink:
    """A sink that calls a function with each epoch's rows (a `pyarrow.Table`)."""
    key = f"{function!r}@{id(function)}"
    _functions[key] = function
    return Sink("callback", {"function": key})


def open_sink(query: Query, sink: Sink, run: str, spark: Any) -> Writer:
    """The writer of one sink of a query; `run` names the checkpoint that the epochs belong to."""
    if sink.format == "callback":
        return CallbackWriter(_functions[sink.options["function"]])
    if sink.format == "console":
        return ConsoleWriter(query.name, int(sink.options.get("numRows", "20")))
    if sink.format == "memory":
        return MemoryWriter(query.schema.arrow(), int(sink.options.get("rows", "10000")))
    if sink.format in ("parquet", "json", "csv"):
        return FolderWriter(query.name, sink.format, sink.options, run)
    return SparkWriter(spark, query.name, sink.format, sink.options, run)

"""Spark's generators of rows: a steady rate, and a fixed number of rows per micro-batch."""

from __future__ import annotations

from headgate.connectors.spark_format import SparkFormatSource
from headgate.graph.options import OptionDeclaration, OptionSet


class RateSource(SparkFormatSource):
    """Rows at a steady rate, with the columns timestamp and value."""

    name = "rate"
    about = "generated rows at a steady rate: `timestamp TIMESTAMP, value BIGINT`"
    options = OptionSet(
        (
            OptionDeclaration("rowsPerSecond", "rows per second", "integer", default="1", least=1),
            OptionDeclaration("rampUpTime", "time until the full rate is reached", "time", default="0s"),
            OptionDeclaration("numPartitions", "partitions of the generated rows", "integer", least=1),
        )
    )
    example = "rowsPerSecond '100', rampUpTime '0s', numPartitions '2'"


class RateMicroBatchSource(SparkFormatSource):
    """A fixed number of rows per micro-batch, with the columns timestamp and value."""

    name = "rate-micro-batch"
    about = "a fixed number of generated rows a micro-batch: `timestamp TIMESTAMP, value BIGINT`"
    options = OptionSet(
        (
            OptionDeclaration("rowsPerBatch", "rows a micro-batch", "integer", needed=True, least=1),
            OptionDeclaration("numPartitions", "partitions of the generated rows", "integer", least=1),
            OptionDeclaration("startTimestamp", "milliseconds of the first row's timestamp", "integer", default="0"),
            OptionDeclaration("advanceMillisPerBatch", "milliseconds between batches", "integer", default="1000"),
        )
    )
    example = "rowsPerBatch '10', numPartitions '1', startTimestamp '1000', advanceMillisPerBatch '500'"

"""Delta tables as streams, static tables and sinks: Delta applies the transaction of an epoch once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.connectors.columns import KEY
from headgate.connectors.contract import Guarantee
from headgate.connectors.delta_table import DeltaTable
from headgate.connectors.spark_format import SparkFormatWriter
from headgate.connectors.table_connectors import (
    MERGE_SCHEMA,
    ONE_PLACE,
    PLACE,
    FormatSink,
    FormatSource,
    FormatStaticTable,
)
from headgate.graph.options import OptionDeclaration, OptionSet
from headgate.graph.queries import Query
from headgate.spark.results import Writer


class DeltaSource(FormatSource):
    """The rows that are appended to a Delta table."""

    name = "delta"
    table_class = DeltaTable
    about = "a Delta table: the rows that it has, then those that are appended"
    options = OptionSet(
        (
            *PLACE,
            OptionDeclaration("maxFilesPerTrigger", "most files a micro-batch", "integer", default="1000", least=1),
            OptionDeclaration("maxBytesPerTrigger", "most bytes a micro-batch, roughly, as `100m`"),
            OptionDeclaration("startingVersion", "first version that is read, or `latest`"),
            OptionDeclaration("startingTimestamp", "first time that is read, as `2024-01-31T12:00:00Z`"),
            OptionDeclaration("skipChangeCommits", "skips versions that change or delete rows", "boolean"),
            OptionDeclaration("ignoreDeletes", "skips versions that delete whole partitions", "boolean"),
            OptionDeclaration("ignoreChanges", "reads files again whose rows are changed", "boolean"),
            OptionDeclaration("readChangeFeed", "reads changes, with the columns `_change_type` …", "boolean"),
            OptionDeclaration("withEventTimeOrder", "reads the first rows in the order of time", "boolean"),
            OptionDeclaration("failOnDataLoss", "fails if versions that are not read are gone", "boolean"),
            OptionDeclaration("excludeRegex", "files whose names match are skipped"),
            OptionDeclaration("schemaTrackingLocation", "folder in which changes of columns are recorded"),
        ),
        one_of=ONE_PLACE,
    )
    guarantee = Guarantee(
        True,
        "the commit of an epoch names what it has read of the table, and Spark reads what is not committed again",
        "tests/delta/test_source.py",
    )
    example = "path '{folder}/in'"

    alternatives = (("startingVersion", "startingTimestamp"),)

    def rows(self, table: DeltaTable, options: Mapping[str, str]) -> Any:
        return _read(table.spark.readStream, table, options)


class DeltaStaticTable(FormatStaticTable):
    """A Delta table as it is, or as it was at a version or time."""

    name = "delta"
    table_class = DeltaTable
    about = "a Delta table; with `REFRESH ON CHANGE`, it is read again when a version has changed rows"
    options = OptionSet(
        (
            *PLACE,
            OptionDeclaration("versionAsOf", "the version that is read", "integer"),
            OptionDeclaration("timestampAsOf", "the time whose version is read, as `2024-01-31T12:00:00Z`"),
        ),
        one_of=ONE_PLACE,
    )
    example = "path '{folder}/in'"

    def rows(self, table: DeltaTable, options: Mapping[str, str]) -> Any:
        return _read(table.spark.read, table, options)


class DeltaSink(FormatSink):
    """A Delta table, by its folder or by its name."""

    name = "delta"
    table_class = DeltaTable
    about = "a Delta table; it is made if it does not exist"
    options = OptionSet(
        (
            *PLACE,
            KEY,
            OptionDeclaration("partitionBy", "columns of a new table, divided by commas", "columns"),
            MERGE_SCHEMA,
        ),
        one_of=ONE_PLACE,
        others=True,
        refused={
            "txnAppId": "Headgate sets it, so that an epoch is applied once",
            "txnVersion": "Headgate sets it, so that an epoch is applied once",
        },
    )
    guarantee = Guarantee(
        True,
        "the epoch is the version of a Delta transaction, an append or a MERGE, which Delta applies once",
        "tests/delta/test_kills.py",
    )
    example = "path '{folder}/out'"

    def writer(self, spark: Any, query: Query, options: Mapping[str, str], name: str, key: list[str]) -> Writer:
        if key:
            return super().writer(spark, query, options, name, key)
        return _DeltaWriter(spark, query.name, options, name)


class _DeltaWriter(SparkFormatWriter):
    """Appends the rows of each epoch, with the options of Delta's writer."""

    def __init__(self, spark: Any, query: str, options: Mapping[str, str], name: str) -> None:
        super().__init__(spark, query, "delta", options)
        self._application = name

    def epoch_options(self, epoch: int) -> dict[str, str]:
        return {"txnAppId": self._application, "txnVersion": str(epoch)}

    def save(self, writer: Any, epoch: int) -> None:
        appending = writer.mode("append")
        appending.saveAsTable(self._table) if self._table is not None else appending.save(self._path)


def _read(reader: Any, table: DeltaTable, options: Mapping[str, str]) -> Any:
    given = {name: value for name, value in options.items() if name != "table"}
    reading = reader.format("delta").options(**given)
    return reading.table(table.name) if table.name is not None else reading.load()

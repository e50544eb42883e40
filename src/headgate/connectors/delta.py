"""Delta tables as streams, static tables and sinks: Delta applies the transaction of an epoch once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.connectors.contract import Guarantee
from headgate.connectors.delta_merge import DeltaMergeWriter
from headgate.connectors.delta_table import DeltaTable, obstacle, reason
from headgate.connectors.spark_format import (
    SparkFormatSink,
    SparkFormatSource,
    SparkFormatTable,
    SparkFormatWriter,
    check_columns,
)
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.queries import Query, Stream, Table
from headgate.graph.types import Schema
from headgate.spark.results import SinkError, Writer
from headgate.spark.source_rows import SourceError, SourceRows

_PLACE = (
    OptionDeclaration("path", "folder of the table"),
    OptionDeclaration("table", "name of the table in Spark's catalog"),
)
_ONE_PLACE = (("path", "table"),)


class DeltaSource(SparkFormatSource):
    """The rows that are appended to a Delta table."""

    name = "delta"
    about = "a Delta table: the rows that it has, then those that are appended"
    options = OptionSet(
        (
            *_PLACE,
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
        one_of=_ONE_PLACE,
    )
    guarantee = Guarantee(
        True,
        "the commit of an epoch names what it has read of the table, and Spark reads what is not committed again",
        "tests/delta/test_source.py",
    )
    example = "path '{folder}/in'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        del schema
        if "startingVersion" in options and "startingTimestamp" in options:
            return OptionProblem("startingTimestamp", "give either startingVersion or startingTimestamp")
        return _place_problem(options)

    def open(self, spark: Any, streams: Sequence[Stream]) -> SourceRows:
        [stream] = streams
        problem = obstacle(spark)
        if problem is not None:
            raise SourceError(f"stream {stream.name}: source delta: {problem}")
        frame = self._frame(spark, stream)
        check_columns(stream, f"delta: {_table(spark, stream.options)}", frame)
        return SourceRows(frame)

    def _frame(self, spark: Any, stream: Stream) -> Any:
        reader = spark.readStream.format("delta").options(**_rest(stream.options))
        name = stream.options.get("table")
        try:
            return reader.table(name) if name is not None else reader.load()
        except Exception as error:
            said = reason(error, stream.options)
            raise SourceError(f"stream {stream.name}: source delta: {said}") from error


class DeltaStaticTable(SparkFormatTable):
    """A Delta table as it is, or as it was at a version or time."""

    name = "delta"
    about = "a Delta table; with `REFRESH ON CHANGE`, it is read again when a version has changed rows"
    options = OptionSet(
        (
            *_PLACE,
            OptionDeclaration("versionAsOf", "the version that is read", "integer"),
            OptionDeclaration("timestampAsOf", "the time whose version is read, as `2024-01-31T12:00:00Z`"),
        ),
        one_of=_ONE_PLACE,
    )
    versioned = True
    example = "path '{folder}/in'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        del schema
        if "versionAsOf" in options and "timestampAsOf" in options:
            return OptionProblem("timestampAsOf", "give either versionAsOf or timestampAsOf")
        return _place_problem(options)

    def open(self, spark: Any, table: Table) -> Any:
        problem = obstacle(spark)
        if problem is not None:
            raise SourceError(f"table {table.name}: source delta: {problem}")
        return super().open(spark, table)

    def load(self, spark: Any, table: Table) -> Any:
        reader = spark.read.format("delta").options(**_rest(table.options))
        name = table.options.get("table")
        return reader.table(name) if name is not None else reader.load()

    def versions(self, spark: Any, table: Table) -> Callable[[], object] | None:
        return _table(spark, table.options).versions()


class DeltaSink(SparkFormatSink):
    """A Delta table, by its folder or by its name."""

    name = "delta"
    about = "a Delta table; it is made if it does not exist"
    options = OptionSet(
        (
            *_PLACE,
            OptionDeclaration(
                "key",
                "columns, divided by commas, by which a row replaces an earlier one; queries that update need it",
                "columns",
            ),
            OptionDeclaration("partitionBy", "columns of a new table, divided by commas", "columns"),
            OptionDeclaration("mergeSchema", "adds new columns to the table", "boolean"),
        ),
        one_of=_ONE_PLACE,
        others=True,
        refused={
            "txnAppId": "Headgate sets it, so that an epoch is applied once",
            "txnVersion": "Headgate sets it, so that an epoch is applied once",
        },
    )
    replaces_rows = True
    guarantee = Guarantee(
        True,
        "the epoch is the version of a Delta transaction, an append or a MERGE, which Delta applies once",
        "tests/delta/test_kills.py",
    )
    example = "path '{folder}/out'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        names = [name.lower() for name in schema.names]
        for name in _key(options):
            if name.lower() not in names:
                has = ", ".join(schema.names)
                return OptionProblem("key", f"key names {name}, which is no column of the query; it has {has}")
        return _place_problem(options)

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        key = _key(options)
        if query.mode == "update" and not key:
            raise SinkError(
                f"query {query.name}: sink delta: the query replaces rows, and the option key is missing: name the"
                " columns that identify a row, for example key 'k'"
            )
        problem = obstacle(spark)
        if problem is not None:
            raise SinkError(f"query {query.name}: sink delta: {problem}")
        if not key:
            return _DeltaWriter(spark, query.name, options, run)
        given = {field.name.lower(): field.name for field in query.schema.fields}
        writer = DeltaMergeWriter(spark, query, options, run, [given[name.lower()] for name in key])
        writer.prepare()
        return writer


class _DeltaWriter(SparkFormatWriter):
    """Appends the rows of each epoch."""

    def __init__(self, spark: Any, query: str, options: Mapping[str, str], run: str) -> None:
        super().__init__(spark, query, "delta", options)
        self._application = f"headgate-{run}-{query}"

    def epoch_options(self, epoch: int) -> dict[str, str]:
        return {"txnAppId": self._application, "txnVersion": str(epoch)}

    def save(self, writer: Any, epoch: int) -> None:
        appending = writer.mode("append")
        appending.saveAsTable(self._table) if self._table is not None else appending.save(self._path)


def _table(spark: Any, options: Mapping[str, str]) -> DeltaTable:
    return DeltaTable(spark, options.get("path"), options.get("table"))


def _rest(options: Mapping[str, str]) -> dict[str, str]:
    """The options that Delta's readers take."""
    return {name: value for name, value in options.items() if name != "table"}


def _place_problem(options: Mapping[str, str]) -> OptionProblem | None:
    both = "path" in options and "table" in options
    return OptionProblem("table", "give either path or table") if both else None


def _key(options: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in options.get("key", "").split(",") if name.strip()]

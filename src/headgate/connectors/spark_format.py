"""Any format that Spark reads or writes and that has no class here: Spark checks its options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from headgate.connectors.contract import Guarantee, ResultSink, StaticTable, StreamSource
from headgate.graph.options import OptionDeclaration, OptionSet
from headgate.graph.queries import Query, Stream, Table
from headgate.graph.secrets import without_secrets
from headgate.graph.types import Field, Schema
from headgate.spark.outbox_rows import OutboxRows
from headgate.spark.packages import Package, PackageError, provide, see_added
from headgate.spark.results import ExecutorWriter, SinkError, Writer
from headgate.spark.source_rows import SourceError, SourceRows
from headgate.spark.spark_errors import expecting_errors
from headgate.spark.valid_text import valid_text

_NOT_FOUND = ("DATA_SOURCE_NOT_FOUND", "_DATA_SOURCE_NOT_ENABLED")


def reason(error: Exception) -> str:
    """Spark's message in one line, without the error class, the statement and the stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # A Java exception that PySpark does not know is named in the second line.
    java = [line.lstrip(": ").partition("Exception: ")[2] for line in lines if line.startswith(": ")]
    text = java[0] if java and java[0] else lines[0] if lines else type(error).__name__
    return re.split(r"\.? SQLSTATE:", re.sub(r"^\[[A-Z0-9_.]+\] ", "", text))[0].rstrip(".")


def missing(error: Exception) -> bool:
    """Whether Spark does not have the data source."""
    return any(sign in str(error) for sign in _NOT_FOUND)


def installed(spark: Any, format_: str) -> bool:
    """Whether Spark has a data source."""
    try:
        with expecting_errors():
            spark.read.format(format_).load()
    except Exception as error:
        # Most formats refuse to read without options; that does not mean that they are missing.
        return not missing(error)
    return True


def provided(spark: Any, *packages: Package) -> None:
    """Adds packages whose data sources Spark does not have yet. PackageError if one is not available."""
    see_added(spark)
    provide(spark, *(package for package in packages if not installed(spark, package.name)))


def check_columns(stream: Stream, source: str, frame: Any, hint: str = "") -> None:
    """SourceError if a source does not give a declared column."""
    gone = [name for name in stream.schema.names if name.lower() not in {c.lower() for c in frame.columns}]
    if gone:
        has = ", ".join(frame.columns)
        raise SourceError(f"stream {stream.name}: source {source} gives no column {gone[0]}; it gives {has}{hint}")


class SparkFormatSource(StreamSource):
    """A source whose own columns are the stream's."""

    def provide(self, spark: Any, stream: Stream, *packages: Package) -> None:
        """Adds the packages of this source; SourceError in one line if they are not available."""
        try:
            provided(spark, *packages)
        except PackageError as error:
            raise SourceError(f"stream {stream.name}: Spark has no source {self.name}: {error}") from error

    def open(self, spark: Any, streams: Sequence[Stream]) -> SourceRows:
        [stream] = streams
        frame = self.load(spark, stream, stream.options)
        check_columns(stream, stream.source, frame)
        return SourceRows(frame)

    def load(self, spark: Any, stream: Stream, options: Mapping[str, str], schema: Any = None) -> Any:
        """Spark's streaming DataFrame; SourceError in one line if Spark refuses."""
        reader = spark.readStream.format(stream.source).options(**options)
        try:
            return (reader if schema is None else reader.schema(schema)).load()
        except Exception as error:
            said = without_secrets(reason(error), options)
            raise SourceError(f"stream {stream.name}: source {stream.source}: {said}") from error


class SparkFormatTable(StaticTable):
    """A static table in any format that Spark reads."""

    gives_schema: bool = False
    """Whether the reader must be given the declared columns."""

    def open(self, spark: Any, table: Table) -> Any:
        try:
            frame = self.load(spark, table)
            valid = ((f, valid_text(f"`{f.name}`", f.type)) for f in table.schema.fields)
            return frame.selectExpr(*(f"CAST({value} AS {_sql(f)}) AS `{f.name}`" for f, value in valid))
        except Exception as error:
            said = without_secrets(reason(error), table.options)
            raise SourceError(f"table {table.name}: source {table.source}: {said}") from error

    def load(self, spark: Any, table: Table) -> Any:
        """A DataFrame of the table with its own columns and types."""
        from headgate.spark.types import ddl

        reader = spark.read.format(table.source).options(**table.options)
        return (reader.schema(ddl(table.schema)) if self.gives_schema else reader).load()


class SparkFormatSink(ResultSink):
    """A folder, a table or another target of Spark's batch writer."""

    about = "any other format that Spark writes"
    options = OptionSet(
        (
            OptionDeclaration("path", "folder; each epoch of a query writes its subfolder `epoch=<run>-<query>-<n>`"),
            OptionDeclaration("table", "table that Spark's catalog knows; each epoch is appended"),
            OptionDeclaration("partitionBy", "columns, divided by commas", "columns"),
        ),
        others=True,
    )
    guarantee = Guarantee(
        False,
        "the last epochs are written again after a crash; exactly once in a folder, where an epoch of a query"
        " overwrites its own subfolder",
    )
    written_by = "executors"

    def __init__(self, format_: str | None = None) -> None:
        self._format = format_ or self.name

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        self.check_installed(spark, query)
        return SparkFormatWriter(spark, query.name, self._format, options, run)

    def check_installed(self, spark: Any, query: Query) -> None:
        """SinkError if Spark does not have the data source; otherwise only the first result would show it."""
        try:
            with expecting_errors():
                spark.read.format(self._format).load()
        except Exception as error:
            # Most formats refuse to read without options; that does not mean that they are missing.
            if missing(error):
                raise SinkError(f"query {query.name}: sink {self._format}: {reason(error)}") from error


class SparkFormatWriter(ExecutorWriter):
    """Writes the results of each epoch with Spark's batch writer, whose tasks read them from the outbox."""

    def __init__(self, spark: Any, query: str, format_: str, options: Mapping[str, str], run: str = "") -> None:
        rest = {key: value for key, value in options.items() if key.lower() not in ("path", "table", "partitionby")}
        given = {key.lower(): value for key, value in options.items()}
        self._spark = spark
        self._query = query
        self._whose = quote(f"{run}-{query}", safe="")
        self._format = format_
        self._options = rest
        self._path = given.get("path")
        self._table = given.get("table")
        self._columns = [name.strip() for name in given.get("partitionby", "").split(",") if name.strip()]

    def publish(self, rows: OutboxRows) -> None:
        try:
            writer = rows.frame(self._spark).write.format(self._format)
            writer = writer.options(**self._options, **self.epoch_options(rows.epoch))
            self.save(writer.partitionBy(*self._columns) if self._columns else writer, rows.epoch)
        except Exception as error:
            said = without_secrets(reason(error), self._options)
            raise SinkError(f"query {self._query}: sink {self._format}: {said}") from error

    def epoch_options(self, epoch: int) -> dict[str, str]:
        """Options that identify the epoch that is written."""
        del epoch
        return {}

    def save(self, writer: Any, epoch: int) -> None:
        if self._table is not None:
            writer.mode("append").saveAsTable(self._table)
        elif self._path is not None:
            writer.mode("overwrite").save(f"{self._path}/epoch={self._whose}-{epoch:09d}")
        else:
            writer.mode("append").save()


def _sql(column: Field) -> str:
    from headgate.spark.types import ddl

    return ddl(Schema((column,))).partition("` ")[2]

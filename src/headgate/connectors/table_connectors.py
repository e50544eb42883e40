"""What the sources, static tables and sinks of formats with transactions (Delta, Iceberg) have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.connectors.columns import KEY, columns_problem, key_columns
from headgate.connectors.spark_format import SparkFormatSink, SparkFormatSource, SparkFormatTable, check_columns
from headgate.connectors.table_format import FormatTable
from headgate.connectors.table_writer import FormatTableWriter
from headgate.graph.options import OptionDeclaration, OptionProblem
from headgate.graph.queries import Query, Stream, Table
from headgate.graph.types import Schema
from headgate.spark.results import SinkError, Writer
from headgate.spark.source_rows import SourceError, SourceRows

PLACE = (
    OptionDeclaration("path", "folder of the table"),
    OptionDeclaration("table", "name of the table in Spark's catalog"),
)
ONE_PLACE = (("path", "table"),)
MERGE_SCHEMA = OptionDeclaration("mergeSchema", "adds new columns to the table", "boolean")


class FormatSource(SparkFormatSource):
    """The rows that are appended to a table."""

    table_class: type[FormatTable]
    alternatives: tuple[tuple[str, str], ...] = ()
    """Pairs of options of which only one may be given, beside path and table."""

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        del schema
        return _both_given(options, self.alternatives)

    def open(self, spark: Any, streams: Sequence[Stream]) -> SourceRows:
        [stream] = streams
        problem = self.table_class.obstacle(spark)
        if problem is not None:
            raise SourceError(f"stream {stream.name}: source {self.name}: {problem}")
        table = self.table_class.of(spark, stream.options)
        try:
            frame = self.rows(table, stream.options)
        except Exception as error:
            said = table.problem_after(error, stream.options)
            raise SourceError(f"stream {stream.name}: source {self.name}: {table}: {said}") from error
        check_columns(stream, f"{self.name}: {table}", frame)
        return SourceRows(frame)

    def rows(self, table: Any, options: Mapping[str, str]) -> Any:
        """A streaming DataFrame of a table that exists."""
        given = {name: value for name, value in options.items() if name not in ("path", "table")}
        return table.spark.readStream.format(self.name).options(**given).table(table.sql_name())


class FormatStaticTable(SparkFormatTable):
    """A table as it is, or as it was at a version or time."""

    table_class: type[FormatTable]
    alternatives = (("versionAsOf", "timestampAsOf"),)
    versioned = True

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        del schema
        return _both_given(options, self.alternatives)

    def open(self, spark: Any, table: Table) -> Any:
        problem = self.table_class.obstacle(spark)
        if problem is not None:
            raise SourceError(f"table {table.name}: source {self.name}: {problem}")
        return super().open(spark, table)

    def load(self, spark: Any, table: Table) -> Any:
        known = self.table_class.of(spark, table.options)
        problem = known.problem()
        if problem is not None:
            raise SourceError(f"{known}: {problem}")
        return self.rows(known, table.options)

    @abstractmethod
    def rows(self, table: Any, options: Mapping[str, str]) -> Any:
        """A DataFrame of a table that exists."""

    def versions(self, spark: Any, table: Table) -> Callable[[], object] | None:
        return self.table_class.of(spark, table.options).versions()


class FormatSink(SparkFormatSink):
    """A table to which an epoch is one transaction."""

    table_class: type[FormatTable]
    replaces_rows = True

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        return columns_problem(options, KEY.name, schema) or _both_given(options)

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        key = key_columns(query, self.name, options)
        problem = self.table_class.obstacle(spark)
        if problem is not None:
            raise SinkError(f"query {query.name}: sink {self.name}: {problem}")
        return self.writer(spark, query, options, f"headgate-{run}-{query.name}", key)

    def writer(self, spark: Any, query: Query, options: Mapping[str, str], name: str, key: list[str]) -> Writer:
        """An open writer; its name is that of no other run or query."""
        opened = FormatTableWriter(spark, query, options, self.table_class, name, key)
        opened.prepare()
        return opened


def _both_given(options: Mapping[str, str], alternatives: tuple[tuple[str, str], ...] = ()) -> OptionProblem | None:
    for one, other in (*alternatives, ("path", "table")):
        if one in options and other in options:
            return OptionProblem(other, f"give either {one} or {other}")
    return None

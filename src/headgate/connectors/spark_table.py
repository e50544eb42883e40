"""Tables of Spark's catalog as sinks: each epoch overwrites its own partition, so that it is written exactly once."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from headgate.connectors.columns import columns_problem, listed, named
from headgate.connectors.contract import Guarantee, ResultSink
from headgate.connectors.spark_format import reason
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.queries import Query
from headgate.graph.types import Schema
from headgate.spark.outbox_rows import OutboxRows
from headgate.spark.results import ExecutorWriter, SinkError, Writer

EPOCH = "headgate_epoch"
"""The partition column: the run, the query and the epoch of a row."""


class TableSink(ResultSink):
    """A table that Spark's catalog knows."""

    name = "table"
    about = (
        f"a table of Spark's catalog, made if it does not exist; its last column `{EPOCH}` is the partition of an epoch"
    )
    options = OptionSet(
        (
            OptionDeclaration("table", "name of the table, or `database.table`", needed=True),
            OptionDeclaration("format", "format of a table that is made", default="parquet"),
            OptionDeclaration("partitionBy", "columns of a table that is made, divided by commas", "columns"),
        )
    )
    written_by = "executors"
    guarantee = Guarantee(
        True,
        f"an epoch overwrites its own partition `{EPOCH}`",
    )
    example = "table 'headgate_example'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        if EPOCH in [name.lower() for name in schema.names]:
            return OptionProblem(None, f"the column {EPOCH} is Headgate's; give it another name")
        return columns_problem(options, "partitionBy", schema)

    def open(self, spark: Any, query: Query, options: Mapping[str, str], run: str) -> Writer:
        writer = TableWriter(spark, query.name, options, run)
        writer.prepare(query)
        return writer


class TableWriter(ExecutorWriter):
    """Writes each epoch with Spark's batch writer, whose tasks read it from the outbox."""

    def __init__(self, spark: Any, query: str, options: Mapping[str, str], run: str) -> None:
        self._spark = spark
        self._query = query
        self._table = options["table"]
        self._format = options.get("format", "parquet")
        self._partition_by = listed(options, "partitionBy")
        self._name = f"{run}-{query}"
        self._parts: list[str] = []
        # Engines on one session publish at the same time.
        self._view = f"headgate_epoch_rows_{uuid.uuid4().hex}"

    def prepare(self, query: Query) -> None:
        """Makes the table if it does not exist; SinkError if it cannot take the rows."""
        try:
            if not self._spark.catalog.tableExists(self._table):
                rows = OutboxRows(query, 0, "", ()).empty(self._spark).selectExpr("*", f"'' AS {EPOCH}")
                writer = rows.write.format(self._format).partitionBy(EPOCH, *self._partition_by)
                writer.mode("ignore").saveAsTable(self._table)
            has = [name.lower() for name in self._spark.table(self._table).columns]
            self._parts = [c.name for c in self._spark.catalog.listColumns(self._table) if c.isPartition]
        except Exception as error:
            raise self._error(reason(error)) from error
        if EPOCH not in [name.lower() for name in self._parts]:
            raise self._error(f"it is not partitioned by {EPOCH}; let Headgate make the table")
        for name in query.schema.names:
            if name.lower() not in has:
                raise self._error(f"it has no column {name}; it has {', '.join(has)}")

    def publish(self, rows: OutboxRows) -> None:
        try:
            rows.frame(self._spark).createOrReplaceTempView(self._view)
            mine = [f"{EPOCH} = '{self._name}-{rows.epoch:09d}'"]
            others = [named(name) for name in self._parts if name.lower() != EPOCH]
            columns = [named(c) for c in self._spark.table(self._table).columns if c.lower() != EPOCH]
            self._spark.sql(
                f"INSERT OVERWRITE TABLE {self._table} PARTITION ({', '.join(mine + others)})"
                f" SELECT {', '.join(columns)} FROM {self._view}"
            )
        except Exception as error:
            raise self._error(reason(error)) from error
        finally:
            self._spark.catalog.dropTempView(self._view)

    def _error(self, said: str) -> SinkError:
        return SinkError(f"query {self._query}: sink table: table {self._table}: {said}")

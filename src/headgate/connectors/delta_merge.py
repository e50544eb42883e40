"""Writes a query's changes to a Delta table by MERGE, as one Delta transaction an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.connectors.delta_table import DeltaTable, reason
from headgate.graph.queries import Query
from headgate.spark.outbox_rows import DELETED, OutboxRows
from headgate.spark.results import ExecutorWriter, SinkError

_OURS = ("path", "table", "partitionBy", "key")
_ORDER, _LAST = "_headgate_order", "_headgate_last"
_ATTEMPTS = 5
"""Attempts per epoch, when other writers change the table at the same time."""
_CONFLICTS = ("[DELTA_CONCURRENT", "[DELTA_METADATA_CHANGED", "[DELTA_PROTOCOL_CHANGED")


class DeltaMergeWriter(ExecutorWriter):
    """The last change of each key updates, inserts or deletes a row of the table.

    MERGE has no writer options; Delta takes application and version of its transaction from the session instead, and
    skips a version that the table has. The writer has a session of its own, so that nothing else is taken for it.
    """

    def __init__(self, spark: Any, query: Query, options: Mapping[str, str], run: str, key: list[str]) -> None:
        self._spark = _session_like(spark)
        self._query = query
        self._options = options
        self._table = DeltaTable(self._spark, options.get("path"), options.get("table"))
        self._columns = query.schema.names
        self._key = key
        self._evolves = options.get("mergeSchema") == "true"
        self._application = f"headgate-{run}-{query.name}"

    def prepare(self) -> None:
        """Makes the table if it does not exist; SinkError if it cannot take the rows."""
        try:
            if not self._table.exists():
                rows = OutboxRows(self._query, 0, "", ()).empty(self._spark).select(*map(_named, self._columns))
                parts = [name.strip() for name in self._options.get("partitionBy", "").split(",") if name.strip()]
                given = {name: value for name, value in self._options.items() if name not in _OURS}
                self._table.create(rows, parts, given)
            self._table.delta()
            has = self._table.columns()
        except Exception as error:
            other = "DELTA_MISSING_DELTA_TABLE" in str(error)
            raise self._error("it is no Delta table" if other else reason(error, self._options)) from error
        gone = [name for name in self._columns if name.lower() not in {column.lower() for column in has}]
        if gone and not self._evolves:
            raise self._error(f"it has no column {gone[0]}; it has {', '.join(has)}")

    def publish(self, rows: OutboxRows) -> None:
        self._spark.conf.set("spark.databricks.delta.write.txnAppId", self._application)
        self._spark.conf.set("spark.databricks.delta.write.txnVersion", str(rows.epoch))
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._merge(self._last_changes(rows))
                return
            except Exception as error:
                if attempt == _ATTEMPTS or not any(sign in str(error) for sign in _CONFLICTS):
                    raise self._error(reason(error, self._options)) from error

    def _last_changes(self, rows: OutboxRows) -> Any:
        """The last change of each key; a place of the outbox is one partition, read in order."""
        key = ", ".join(map(_named, self._key))
        numbered = rows.frame(self._spark).selectExpr("*", f"monotonically_increasing_id() AS {_ORDER}")
        last = numbered.selectExpr("*", f"row_number() OVER (PARTITION BY {key} ORDER BY {_ORDER} DESC) AS {_LAST}")
        deleted = DELETED if self._query.mode == "update" else f"false AS {DELETED}"
        return last.where(f"{_LAST} = 1").selectExpr(*map(_named, self._columns), deleted)

    def _merge(self, changes: Any) -> None:
        same = " AND ".join(f"target.{_named(name)} <=> source.{_named(name)}" for name in self._key)
        merge = self._table.delta().alias("target").merge(changes.alias("source")._jdf, same)
        if self._evolves:
            merge = merge.withSchemaEvolution()
        if self._query.mode == "update":
            merge = merge.whenMatched(f"source.{DELETED}").delete()
        others = {_named(name): f"source.{_named(name)}" for name in self._columns if name not in self._key}
        if others:
            merge = merge.whenMatched().updateExpr(others)
        every = {_named(name): f"source.{_named(name)}" for name in self._columns}
        merge.whenNotMatched(f"NOT source.{DELETED}").insertExpr(every).execute()

    def _error(self, said: str) -> SinkError:
        return SinkError(f"query {self._query.name}: sink delta: {self._table}: {said}")


def _session_like(spark: Any) -> Any:
    """A session with the settings, views and database of another, which it does not affect."""
    from pyspark.sql import SparkSession

    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def _named(column: str) -> str:
    return f"`{column.replace('`', '``')}`"

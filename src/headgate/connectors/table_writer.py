"""Writes results to a table of a format with transactions: an epoch is one transaction, a MERGE or an INSERT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.connectors.columns import named
from headgate.connectors.table_format import FormatTable
from headgate.graph.queries import Query
from headgate.graph.types import Field, Schema
from headgate.spark.outbox_rows import DELETED, ORDER, OutboxRows
from headgate.spark.results import ExecutorWriter, SinkError

_CHANGES = "headgate_changes"
_LAST = "_headgate_last"
_ATTEMPTS = 5
"""Attempts per epoch, when other writers change the table at the same time."""


class FormatTableWriter(ExecutorWriter):
    """With a key, the last change of each key updates, inserts or deletes a row of the table; without, rows are added.

    SQL statements have no writer options: the formats take what a transaction records from the session. The writer has
    a session of its own, so that nothing else is taken for it.
    """

    def __init__(
        self,
        spark: Any,
        query: Query,
        options: Mapping[str, str],
        table_class: type[FormatTable],
        name: str,
        key: list[str],
    ) -> None:
        self._spark = _session_like(spark)
        self._query = query
        self._options = options
        self._table = table_class.of(self._spark, options)
        self._name = name
        self._key = key
        self._columns = query.schema.names
        self._epoch: int | None = None
        """The last epoch that the table has; None if it must be asked."""

    def prepare(self) -> None:
        """Makes the table if it does not exist; SinkError if it cannot take the rows."""
        try:
            if not self._table.exists():
                self._table.create(self._query.schema, self._options)
            problem = self._table.problem()
            if problem is None:
                has = self._table.columns()
                new = [
                    field
                    for field in self._query.schema.fields
                    if field.name.lower() not in {name.lower() for name in has}
                ]
                problem = self._adopt(new, has) if new else None
        except Exception as error:
            raise self._error(self._table.reason(error, self._options)) from error
        if problem is not None:
            raise self._error(problem)

    def _adopt(self, new: list[Field], has: list[str]) -> str | None:
        """Adds columns to the table if that is wanted; otherwise what is wrong with it."""
        if self._options.get("mergeSchema") != "true":
            return f"it has no column {new[0].name}; it has {', '.join(has)}"
        from headgate.spark.types import ddl  # which imports PySpark: `headgate check` starts without

        self._table.add_columns(ddl(Schema(tuple(new))))
        return None

    def publish(self, rows: OutboxRows) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                if self._epoch is None:
                    self._epoch = self._table.last_epoch(self._name)
                if rows.epoch > self._epoch:
                    self._table.name_epoch(self._name, rows.epoch)
                    self._write(rows)
                    self._epoch = rows.epoch
                return
            except Exception as error:
                # The transaction may be in the table all the same.
                self._epoch = None
                if attempt == _ATTEMPTS or not any(sign in str(error) for sign in self._table.conflicts):
                    raise self._error(self._table.reason(error, self._options)) from error

    def _write(self, rows: OutboxRows) -> None:
        columns = ", ".join(map(named, self._columns))
        if self._key:
            self._last_changes(rows).createOrReplaceTempView(_CHANGES)
            self._spark.sql(self._merge())
        else:
            rows.frame(self._spark).createOrReplaceTempView(_CHANGES)
            self._spark.sql(f"INSERT INTO {self._table.sql_name()} ({columns}) SELECT {columns} FROM {_CHANGES}")

    def _last_changes(self, rows: OutboxRows) -> Any:
        """The last change of each key; a place of the outbox is one partition, read in order."""
        key = ", ".join(map(named, self._key))
        last = rows.frame(self._spark, order=True).selectExpr(
            "*", f"row_number() OVER (PARTITION BY {key} ORDER BY {ORDER} DESC) AS {_LAST}"
        )
        deleted = DELETED if self._query.mode == "update" else f"false AS {DELETED}"
        return last.where(f"{_LAST} = 1").selectExpr(*map(named, self._columns), deleted)

    def _merge(self) -> str:
        """The statement that brings the last changes into the table."""
        same = " AND ".join(f"target.{named(name)} <=> source.{named(name)}" for name in self._key)
        merge = [f"MERGE INTO {self._table.sql_name()} AS target USING {_CHANGES} AS source ON {same}"]
        if self._query.mode == "update":
            merge.append(f"WHEN MATCHED AND source.{DELETED} THEN DELETE")
        others = [f"target.{named(name)} = source.{named(name)}" for name in self._columns if name not in self._key]
        if others:
            merge.append(f"WHEN MATCHED THEN UPDATE SET {', '.join(others)}")
        columns = ", ".join(map(named, self._columns))
        values = ", ".join(f"source.{named(name)}" for name in self._columns)
        merge.append(f"WHEN NOT MATCHED AND NOT source.{DELETED} THEN INSERT ({columns}) VALUES ({values})")
        return " ".join(merge)

    def _error(self, said: str) -> SinkError:
        return SinkError(f"query {self._query.name}: sink {self._table.package.name}: {self._table}: {said}")


def _session_like(spark: Any) -> Any:
    """A session with the settings, views and database of another, which it does not affect."""
    from pyspark.sql import SparkSession

    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())

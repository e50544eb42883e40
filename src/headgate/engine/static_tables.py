"""The rows of static tables while an engine runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from headgate.connectors.registry import open_table, versions_of
from headgate.control.query_control import EngineError
from headgate.graph.queries import Table
from headgate.spark.spark_errors import expecting_errors, reason, spark_errors
from headgate.spark.table_refresh import TableRefresh


class StaticTables:
    """Reads tables once, and again as their options ask (`TableRefresh`). `changed` is called on a separate thread when
    the rows of a table have changed; it stores the new rows with `put`."""

    def __init__(self, spark: Any, changed: Callable[[str, pa.Table], None]) -> None:
        self._spark = spark
        self._refresh = TableRefresh(spark, self._read, changed, partial(versions_of, spark))
        self.rows: Mapping[str, pa.Table] = {}
        """The rows of each table; a change replaces the whole mapping."""

    def load(self, tables: Mapping[str, Table]) -> None:
        """Reads the tables that are new; EngineError if one cannot be read."""
        for name, table in dict(tables).items():
            if name not in self.rows:
                # Taken before the rows are read: a file that changes in between is read again.
                files = self._refresh.fingerprint(table)
                self.put(name, self._read(table))
                self._refresh.watch(table, self.rows[name], files)

    def put(self, name: str, rows: pa.Table) -> None:
        """Replaces the rows of a table."""
        self.rows = {**self.rows, name: rows}

    def report(self) -> dict[str, dict[str, Any]]:
        """See `TableRefresh.report`."""
        return self._refresh.report()

    def close(self) -> None:
        """Stops reading tables."""
        self._refresh.close()

    def _read(self, table: Table) -> pa.Table:
        try:
            with expecting_errors():
                return open_table(self._spark, table).toArrow().cast(table.schema.arrow())
        except (*spark_errors(), pa.ArrowException) as error:
            raise EngineError(f"table {table.name} cannot be read: {reason(error)}") from error

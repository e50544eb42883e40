"""A Delta table, by its folder or its name: its columns, its versions, the transactions of epochs.

Delta's classes are called through the JVM, so that only its jars are needed and not its Python package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.connectors.columns import KEY, listed, named
from headgate.connectors.table_format import FormatTable, TableVersions
from headgate.graph.types import Schema
from headgate.spark.packages import DELTA

_OURS = ("path", "table", "partitionBy", KEY.name)
_MAINTENANCE = frozenset(("OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "FSCK"))
"""Operations that change files but no rows."""
_LOOKED_AT = 100
"""Most versions whose operations are looked at when a table has changed."""


class DeltaTable(FormatTable):
    """A Delta table that may exist."""

    package = DELTA
    title = "Delta"
    unconfigured = "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG"
    conflicts = ("[DELTA_CONCURRENT", "[DELTA_METADATA_CHANGED", "[DELTA_PROTOCOL_CHANGED")

    def sql_name(self) -> str:
        return self.name if self.name is not None else f"delta.{named(self.qualified().toString())}"

    def problem(self) -> str | None:
        try:
            self.delta()
        except Exception as error:
            if "DELTA_MISSING_DELTA_TABLE" in str(error):
                return "it is no Delta table"
            raise
        return None

    def exists(self) -> bool:
        if self.name is not None:
            return bool(self.spark.catalog.tableExists(self.name))
        return bool(self._class().isDeltaTable(self.spark._jsparkSession, self.path))

    def create(self, schema: Schema, options: Mapping[str, str]) -> None:
        given = {name: value for name, value in options.items() if name not in _OURS}
        from headgate.spark.types import ddl  # which imports PySpark: `headgate check` starts without

        rows = self.spark.createDataFrame([], ddl(schema))
        writer = rows.write.format("delta").options(**given).mode("ignore")
        parts = listed(options, "partitionBy")
        if parts:
            writer = writer.partitionBy(*parts)
        writer.saveAsTable(self.name) if self.name is not None else writer.save(self.path)

    def delta(self) -> Any:
        """Delta's own object in the JVM."""
        session = self.spark._jsparkSession
        if self.name is not None:
            return self._class().forName(session, self.name)
        return self._class().forPath(session, self.path)

    def versions(self) -> Callable[[], object]:
        return _DeltaVersions(self)

    def last_epoch(self, writer: str) -> int:
        """Not asked for: Delta itself skips a transaction that it has."""
        return -1

    def name_epoch(self, writer: str, epoch: int) -> None:
        self.spark.conf.set("spark.databricks.delta.write.txnAppId", writer)
        self.spark.conf.set("spark.databricks.delta.write.txnVersion", str(epoch))

    def _class(self) -> Any:
        return self.spark.sparkContext._jvm.io.delta.tables.DeltaTable


class _DeltaVersions(TableVersions):
    """Skips versions of maintenance."""

    def __init__(self, table: DeltaTable) -> None:
        super().__init__(table.spark)
        self._table = table
        self._newest = -1
        """The newest version that was looked at."""

    def look(self) -> None:
        from pyspark.sql import DataFrame

        delta = self._table.delta()
        [(location, identity)] = DataFrame(delta.detail(), self.spark).select("location", "id").collect()
        self.log = f"{location}/_delta_log"
        if identity != self.identity:
            self.identity, self._newest, self.changed = identity, -1, -1
        found = DataFrame(delta.history(_LOOKED_AT), self.spark).select("version", "operation").collect()
        new = [row for row in found if row["version"] > self._newest]
        rows = [row["version"] for row in new if row["operation"] not in _MAINTENANCE]
        self.changed = max(rows, default=self.changed)
        self._newest = max((row["version"] for row in new), default=self._newest)

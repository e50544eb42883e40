"""An Iceberg table, by its folder or its name in a catalog: its versions, and the snapshots that name epochs.

MERGE takes only tables of a catalog: a folder is opened as a table of a catalog whose warehouse is a folder above.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from headgate.connectors.columns import named
from headgate.connectors.contract import quoted
from headgate.connectors.iceberg_partitions import PARTITION_BY, partitioned_by
from headgate.connectors.table_format import FormatTable, TableVersions
from headgate.graph.types import Schema
from headgate.spark.packages import ICEBERG

PROPERTIES = ("write.", "read.", "commit.", "history.", "format-version")
"""What the names of a table's properties begin with."""
_DEFAULTS = {
    # Every epoch leaves a file of metadata with all snapshots.
    "write.metadata.delete-after-commit.enabled": "true",
}
_WRITER, _EPOCH = "headgate.writer", "headgate.epoch"
"""Properties of a snapshot that an epoch made."""
_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_NO_CATALOG = ("path is not set", "REQUIRES_SINGLE_PART_NAMESPACE")


class IcebergTable(FormatTable):
    """An Iceberg table that may exist."""

    package = ICEBERG
    title = "Iceberg"
    # A file that a scan needs was replaced by another writer, or another one was faster every time.
    conflicts = (
        "Found conflicting files",
        "Found new conflicting delete files",
        "CommitFailedException",
        "Missing required files to delete",
    )

    @classmethod
    def reason(cls, error: Exception, options: Mapping[str, str]) -> str:
        if any(sign in str(error) for sign in _NO_CATALOG):
            return (
                "it is in no Iceberg catalog: give a path, or set a catalog in Spark's configuration, for example"
                f" spark.sql.catalog.NAME={_CATALOG} and spark.sql.catalog.NAME.type"
            )
        return super().reason(error, options)

    def sql_name(self) -> str:
        if self.name is not None:
            return self.name
        place = self.qualified()
        above = place.getParent()
        if above is None:
            raise ValueError(f"{self.path} is no folder that is below another")
        # Without a namespace, a folder called `files` or `history` would be a table of metadata.
        spaces = [] if above.getParent() is None else [above.getName()]
        warehouse = (above.getParent() if spaces else above).toString()
        catalog = f"headgate_{hashlib.sha256(warehouse.encode()).hexdigest()[:12]}"
        setting = f"spark.sql.catalog.{catalog}"
        if self.spark.conf.get(setting, None) is None:
            self.spark.conf.set(f"{setting}.type", "hadoop")
            self.spark.conf.set(f"{setting}.warehouse", warehouse)
            # Other processes write to the table as well.
            self.spark.conf.set(f"{setting}.cache-enabled", "false")
            self.spark.conf.set(setting, _CATALOG)
        return ".".join((catalog, *map(named, (*spaces, place.getName()))))

    def problem(self) -> str | None:
        try:
            self.newest()
        except Exception as error:
            if "TABLE_OR_VIEW_NOT_FOUND" in str(error):
                return "there is no such table"
            if "is not an Iceberg table" in str(error):
                return "it is no Iceberg table"
            raise
        return None

    def exists(self) -> bool:
        return bool(self.spark.catalog.tableExists(self.sql_name()))

    def create(self, schema: Schema, options: Mapping[str, str]) -> None:
        from headgate.spark.types import ddl  # which imports PySpark: `headgate check` starts without

        given = {name: value for name, value in options.items() if name.lower().startswith(PROPERTIES)}
        properties = ", ".join(f"'{quoted(name)}' '{quoted(value)}'" for name, value in {**_DEFAULTS, **given}.items())
        parts = f" {partitioned_by(options[PARTITION_BY.name])}" if PARTITION_BY.name in options else ""
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.sql_name()} ({ddl(schema)}) USING iceberg{parts}"
            f" TBLPROPERTIES ({properties})"
        )

    def newest(self) -> Any:
        """Iceberg's own object in the JVM, as the table is now."""
        self._refresh()
        spark3 = self.spark.sparkContext._jvm.org.apache.iceberg.spark.Spark3Util
        return spark3.loadIcebergTable(self.spark._jsparkSession, self.sql_name())

    def versions(self) -> Callable[[], object]:
        return _IcebergVersions(self)

    def last_epoch(self, writer: str) -> int:
        self._refresh()
        [(epoch,)] = self.spark.sql(
            f"SELECT max(CAST(summary['{_EPOCH}'] AS BIGINT)) FROM {self.sql_name()}.snapshots"
            f" WHERE summary['{_WRITER}'] = '{quoted(writer)}'"
        ).collect()
        return -1 if epoch is None else int(epoch)

    def _refresh(self) -> None:
        """The catalog of a user keeps a table for a while, by default 30 s, although others write to it."""
        if self.name is not None:
            self.spark.catalog.refreshTable(self.name)

    def name_epoch(self, writer: str, epoch: int) -> None:
        for name, value in ((_WRITER, writer), (_EPOCH, str(epoch))):
            self.spark.conf.set(f"spark.sql.iceberg.snapshot-property.{name}", value)


class _IcebergVersions(TableVersions):
    """Skips snapshots that replace files by others with the same rows."""

    def __init__(self, table: IcebergTable) -> None:
        super().__init__(table.spark)
        self._table = table
        self._newest: int | None = None
        """The snapshot that was looked at last."""

    def look(self) -> None:
        table = self._table.newest()
        if self._table.name is None:
            self.log = f"{table.location()}/metadata"
        identity = table.uuid().toString()
        if identity != self.identity:
            self.identity, self._newest, self.changed = identity, None, None
        newest = at = table.currentSnapshot()
        while at is not None and at.operation() == "replace" and at.snapshotId() != self._newest:
            parent = at.parentId()
            at = None if parent is None else table.snapshot(parent)
        if at is not None and at.snapshotId() != self._newest:
            self.changed = at.snapshotId()
        self._newest = None if newest is None else newest.snapshotId()

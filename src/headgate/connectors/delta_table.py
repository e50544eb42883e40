"""A Delta table, by its folder or its name: whether a session can use it, its columns, its versions, changes by MERGE.

Delta's classes are called through the JVM, so that only its jars are needed and not its Python package.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.connectors.spark_format import missing
from headgate.connectors.spark_format import reason as spark_reason
from headgate.graph.secrets import without_secrets
from headgate.spark.packages import DELTA, PackageError, fetched
from headgate.spark.spark_errors import expecting_errors

_MAINTENANCE = frozenset(("OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "FSCK"))
"""Operations that change files but no rows."""
_LOOKED_AT = 100
"""Most versions whose operations are looked at when a table has changed."""
_UNCONFIGURED = "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG"


def obstacle(spark: Any) -> str | None:
    """Why a session cannot use Delta, in one line; None if it can."""
    try:
        with expecting_errors():
            spark.read.format("delta").load()
    except Exception as error:
        if _UNCONFIGURED in str(error):
            return _not_from_the_start()
        if missing(error):
            try:
                fetched(DELTA)
            except PackageError as problem:
                return f"Delta cannot be had: {problem}"
            return _not_from_the_start()
    return None


def _not_from_the_start() -> str:
    settings = " and ".join(f"{name}={value}" for name, value in DELTA.settings)
    return (
        f"the Spark session was started without Delta; restart Headgate with this script, or start the session with"
        f" Delta's jars and {settings}"
    )


def reason(error: Exception, options: Mapping[str, str]) -> str:
    """Delta's or Spark's message in one line."""
    said = _not_from_the_start() if _UNCONFIGURED in str(error) else spark_reason(error)
    return without_secrets(said, options)


@dataclass(frozen=True)
class DeltaTable:
    """A table that may exist. All calls but `exists` need it."""

    spark: Any
    path: str | None
    name: str | None

    def __str__(self) -> str:
        return f"table {self.name if self.name is not None else self.path}"

    def exists(self) -> bool:
        if self.name is not None:
            return bool(self.spark.catalog.tableExists(self.name))
        return bool(self._class().isDeltaTable(self.spark._jsparkSession, self.path))

    def create(self, rows: Any, partition_by: list[str], options: Mapping[str, str]) -> None:
        """Makes the table with the columns of a DataFrame, unless it exists by now."""
        writer = rows.write.format("delta").options(**options).mode("ignore")
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        writer.saveAsTable(self.name) if self.name is not None else writer.save(self.path)

    def columns(self) -> list[str]:
        read = self.spark.read.format("delta")
        return list((read.table(self.name) if self.name is not None else read.load(self.path)).columns)

    def delta(self) -> Any:
        """Delta's own object in the JVM."""
        session = self.spark._jsparkSession
        if self.name is not None:
            return self._class().forName(session, self.name)
        return self._class().forPath(session, self.path)

    def versions(self) -> Callable[[], object]:
        """A function that returns the newest version that changed rows, and reads the log only if it has grown."""
        return _Versions(self)

    def _class(self) -> Any:
        return self.spark.sparkContext._jvm.io.delta.tables.DeltaTable


class _Versions:
    """Finds the newest version of a table that is not one of maintenance."""

    def __init__(self, table: DeltaTable) -> None:
        self._table = table
        self._log: str | None = None
        self._listed: object = None
        self._id: str | None = None
        """Identifies the table: one that is made anew has other versions."""
        self._newest = self._changed = -1
        """The newest version that was looked at, and the newest that changed rows."""

    def __call__(self) -> object:
        listed = None if self._log is None else _listed(self._table.spark, self._log)
        if listed is None or listed != self._listed:
            self._look()
            self._listed = listed
        return self._id, self._changed

    def _look(self) -> None:
        from pyspark.sql import DataFrame

        delta, spark = self._table.delta(), self._table.spark
        [(location, identity)] = DataFrame(delta.detail(), spark).select("location", "id").collect()
        self._log = f"{location}/_delta_log"
        if identity != self._id:
            self._id, self._newest, self._changed = identity, -1, -1
        found = DataFrame(delta.history(_LOOKED_AT), spark).select("version", "operation").collect()
        new = [row for row in found if row["version"] > self._newest]
        rows = [row["version"] for row in new if row["operation"] not in _MAINTENANCE]
        self._changed = max(rows, default=self._changed)
        self._newest = max((row["version"] for row in new), default=self._newest)


def _listed(spark: Any, log: str) -> object:
    """The files of a folder, with their sizes and times."""
    local = log.removeprefix("file:")
    if local.startswith("/"):
        with os.scandir(os.path.normpath(local)) as entries:
            return sorted((entry.name, entry.stat().st_mtime_ns) for entry in entries if entry.is_file())
    place = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(log)
    files = place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).listStatus(place)
    return sorted((file.getPath().getName(), file.getModificationTime()) for file in files)

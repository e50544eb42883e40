"""A table of a format with transactions (Delta, Iceberg): what a session can do with it, when its rows have changed."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from headgate.connectors.spark_format import missing
from headgate.connectors.spark_format import reason as spark_reason
from headgate.graph.secrets import without_secrets
from headgate.graph.types import Schema
from headgate.spark.packages import Package, PackageError, fetched
from headgate.spark.spark_errors import expecting_errors


@dataclass(frozen=True)
class FormatTable(ABC):
    """A table that may exist. All calls but `problem`, `exists` and `create` need it.

    - `title`: the name of the format in messages
    - `unconfigured`: part of the error in a session that has the jars but not the settings of the package
    - `conflicts`: parts of errors after which a transaction may be tried again
    """

    package: ClassVar[Package]
    title: ClassVar[str]
    unconfigured: ClassVar[str | None] = None
    conflicts: ClassVar[tuple[str, ...]] = ()

    spark: Any
    path: str | None
    name: str | None

    @classmethod
    def of(cls, spark: Any, options: Mapping[str, str]) -> Self:
        """The table that options name."""
        return cls(spark, options.get("path"), options.get("table"))

    def __str__(self) -> str:
        return f"table {self.name if self.name is not None else self.path}"

    @classmethod
    def obstacle(cls, spark: Any) -> str | None:
        """Why a session cannot use the format, in one line; None if it can."""
        try:
            with expecting_errors():
                spark.read.format(cls.package.name).load()
        except Exception as error:
            if cls._unconfigured(error):
                return cls._not_from_the_start()
            if missing(error):
                try:
                    fetched(cls.package)
                except PackageError as problem:
                    return f"{cls.title} cannot be had: {problem}"
                return cls._not_from_the_start()
        return None

    @classmethod
    def reason(cls, error: Exception, options: Mapping[str, str]) -> str:
        """The message of the format or of Spark in one line."""
        said = cls._not_from_the_start() if cls._unconfigured(error) else spark_reason(error)
        return without_secrets(said, options)

    def problem_after(self, error: Exception, options: Mapping[str, str]) -> str:
        """Why the table cannot be read, after an error in reading it."""
        try:
            problem = self.problem()
        except Exception as other:
            return self.reason(other, options)
        return problem or self.reason(error, options)

    @classmethod
    def _unconfigured(cls, error: Exception) -> bool:
        return cls.unconfigured is not None and cls.unconfigured in str(error)

    @classmethod
    def _not_from_the_start(cls) -> str:
        settings = " and ".join(f"{name}={value}" for name, value in cls.package.settings)
        return (
            f"the Spark session was started without {cls.title}; restart Headgate with this script, or start the"
            f" session with {cls.title}'s jars and {settings}"
        )

    @abstractmethod
    def sql_name(self) -> str:
        """The table as Spark SQL names it."""

    @abstractmethod
    def problem(self) -> str | None:
        """Why there is no table of this format, in a few words; None if there is one. May raise Spark's errors."""

    @abstractmethod
    def exists(self) -> bool: ...

    @abstractmethod
    def create(self, schema: Schema, options: Mapping[str, str]) -> None:
        """Makes the table, by the options of a sink, unless it exists by now."""

    @abstractmethod
    def versions(self) -> Callable[[], object]:
        """A function whose value changes when a version has changed rows."""

    @abstractmethod
    def last_epoch(self, writer: str) -> int:
        """The last epoch of a writer that the table has, as `name_epoch` recorded it; −1 if that is not known."""

    @abstractmethod
    def name_epoch(self, writer: str, epoch: int) -> None:
        """Lets the next transactions of this session record an epoch of a writer."""

    def columns(self) -> list[str]:
        return list(self.spark.table(self.sql_name()).columns)

    def add_columns(self, definitions: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.sql_name()} ADD COLUMNS ({definitions})")

    def qualified(self) -> Any:
        """The path as Hadoop's, with its scheme and from the root."""
        place = self.spark.sparkContext._jvm.org.apache.hadoop.fs.Path(self.path)
        files = place.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf())
        return files.makeQualified(place)


class TableVersions(ABC):
    """Finds the newest version of a table that changed rows, and looks only if the folder of its log has changed."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        self.log: str | None = None
        """The folder in which every version has a file; None: the table is looked at each time."""
        self.identity: object = None
        """Identifies the table: one that is made anew has other versions."""
        self.changed: object = None
        """The newest version that changed rows."""
        self._listed: object = None

    def __call__(self) -> object:
        listed = self._files()
        if listed is None or listed != self._listed:
            self.look()
            self._listed = listed
        return self.identity, self.changed

    @abstractmethod
    def look(self) -> None:
        """Sets `log`, `identity` and `changed`."""

    def _files(self) -> object:
        """The files of the log, with their sizes and times; None if it is not known yet."""
        if self.log is None:
            return None
        local = self.log.removeprefix("file:")
        if local.startswith("/"):
            with os.scandir(os.path.normpath(local)) as entries:
                return sorted((entry.name, entry.stat().st_mtime_ns) for entry in entries if entry.is_file())
        context = self.spark.sparkContext
        place = context._jvm.org.apache.hadoop.fs.Path(self.log)
        files = place.getFileSystem(context._jsc.hadoopConfiguration()).listStatus(place)
        return sorted((file.getPath().getName(), file.getModificationTime()) for file in files)

"""What the tests of Delta and Iceberg have in common: a session, its tables by folder or by name, maintenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.connectors.registry import connectors, open_sink
from headgate.connectors.table_format import FormatTable
from headgate.graph.queries import Query
from headgate.spark.packages import PackageError, at_start, fetched
from headgate.spark.results import ExecutorWriter, Writer
from headgate.spark.session import local_session
from headgate.sql import Catalog
from tests.connectors.declared import clause


@dataclass(frozen=True)
class Lake:
    """A session with tables of one format.

    - `catalog`: what the names of its tables begin with
    - `log`: the files below a table of which each version adds one
    - `maintenance`: statements that replace files of a table by others with the same rows
    """

    spark: Any
    table_class: type[FormatTable]
    catalog: str
    log: str
    maintenance: Callable[[str], Sequence[str]]

    @property
    def format(self) -> str:
        return self.table_class.package.name

    def place(self, tmp_path: Path, by: str, name: str) -> dict[str, str]:
        """The options of a table, by its folder or by its name."""
        if by == "path":
            return {"path": str(tmp_path / name)}
        return {"table": f"{self.catalog}{name}_{tmp_path.name.replace('-', '_')}"}

    def named(self, options: Mapping[str, str]) -> str:
        """A table in SQL."""
        return self.table_class.of(self.spark, options).sql_name()

    def sql(self, statement: str, options: Mapping[str, str]) -> None:
        """A statement in which {} stands for a table."""
        self._refresh(options)
        self.spark.sql(statement.format(self.named(options)))

    def create(self, columns: str, options: Mapping[str, str]) -> None:
        self.spark.sql(f"CREATE TABLE {self.named(options)} ({columns}) USING {self.format}")

    def maintain(self, options: Mapping[str, str]) -> None:
        self._refresh(options)
        for statement in self.maintenance(self.named(options)):
            self.spark.sql(statement)

    def rows(self, options: Mapping[str, str], *columns: str) -> Counter[tuple[Any, ...]]:
        self._refresh(options)
        frame = self.spark.table(self.named(options))
        return Counter(tuple(row) for row in (frame.select(*columns) if columns else frame).collect())

    def _refresh(self, options: Mapping[str, str]) -> None:
        """A catalog may keep tables as they were."""
        if "table" in options:
            self.spark.catalog.refreshTable(options["table"])

    def query(self, options: Mapping[str, str], select: str) -> Query:
        """A query over `s (k STRING, v INT)` into a table."""
        catalog = Catalog(connectors=connectors())
        catalog.execute(
            f"CREATE STREAM s (k STRING, v INT) USING rate; CREATE QUERY q {self.into(options)} AS {select}"
        )
        return catalog.queries["q"]

    def into(self, options: Mapping[str, str]) -> str:
        return f"INTO {self.format} {clause(options)}"

    def totals(self, options: Mapping[str, str]) -> Query:
        """A query that updates."""
        return self.query({**options, "key": "k"}, "SELECT k, sum(v) AS total FROM s GROUP BY k")

    def open(self, query: Query, run: str = "run1") -> ExecutorWriter:
        writer: Writer = open_sink(self.spark, query, query.sinks[0], run)
        assert isinstance(writer, ExecutorWriter)
        return writer


@dataclass(frozen=True)
class Kind:
    """A format as the tests of its folder declare it; `settings` of a session follow from a folder for its tables."""

    table_class: type[FormatTable]
    command: str
    log: str
    maintenance: Callable[[str], Sequence[str]]
    catalog: str = ""
    settings: Callable[[Path], Mapping[str, str]] = field(default=lambda folder: {})

    def lake(self, folders: pytest.TempPathFactory) -> Iterator[Lake]:
        """A session of its own process; the tests skip where the format is not published for the installed Spark."""
        package = self.table_class.package
        try:
            fetched(package)
        except PackageError as missing:
            pytest.skip(f"{self.command} runs it: {missing}")
        from pyspark.sql import SparkSession

        if SparkSession.getActiveSession() is not None:
            pytest.skip(f"{self.command} runs it: a session without {self.table_class.title} was started before")
        folder = folders.mktemp("warehouse")
        given = {**at_start({package}), "spark.sql.warehouse.dir": str(folder), **self.settings(folder)}
        session = local_session(f"headgate-{package.name}", given)
        yield Lake(session, self.table_class, self.catalog, self.log, self.maintenance)
        session.stop()


def rows_of(query: Query, *rows: tuple[Any, ...]) -> pa.Table:
    """Rows with all columns of a query's plan: the visible ones, those of the identity, and whether it is deleted."""
    schema = query.plan.schema.arrow()
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)], schema=schema)

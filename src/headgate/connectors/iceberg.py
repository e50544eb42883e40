"""Iceberg tables as streams, static tables and sinks: the snapshot of an epoch names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.connectors.columns import KEY
from headgate.connectors.contract import Guarantee, quoted
from headgate.connectors.iceberg_partitions import PARTITION_BY, partitions_problem
from headgate.connectors.iceberg_table import PROPERTIES, IcebergTable
from headgate.connectors.table_connectors import (
    MERGE_SCHEMA,
    ONE_PLACE,
    PLACE,
    FormatSink,
    FormatSource,
    FormatStaticTable,
)
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.types import Schema


class IcebergSource(FormatSource):
    """The rows that are appended to an Iceberg table."""

    name = "iceberg"
    table_class = IcebergTable
    about = "an Iceberg table: the rows that it has, then those that are appended"
    options = OptionSet(
        (
            *PLACE,
            OptionDeclaration("streaming-max-files-per-micro-batch", "most files a micro-batch", "integer", least=1),
            OptionDeclaration(
                "streaming-max-rows-per-micro-batch", "most rows a micro-batch, by whole files", "integer", least=1
            ),
            OptionDeclaration(
                "stream-from-timestamp", "snapshots before it are not read; milliseconds since 1970", "integer"
            ),
            OptionDeclaration("streaming-skip-overwrite-snapshots", "skips snapshots that change rows", "boolean"),
            OptionDeclaration("streaming-skip-delete-snapshots", "skips snapshots that only delete rows", "boolean"),
        ),
        one_of=ONE_PLACE,
    )
    guarantee = Guarantee(
        True,
        "the commit of an epoch names the snapshots that it has read, and Spark reads what is not committed again",
        "tests/iceberg/test_source.py",
    )
    example = "path '{folder}/in'"


class IcebergStaticTable(FormatStaticTable):
    """An Iceberg table as it is, or as it was in a snapshot or at a time."""

    name = "iceberg"
    table_class = IcebergTable
    about = "an Iceberg table; with `REFRESH ON CHANGE`, it is read again when a snapshot has changed rows"
    options = OptionSet(
        (
            *PLACE,
            OptionDeclaration("versionAsOf", "the snapshot, tag or branch that is read"),
            OptionDeclaration("timestampAsOf", "the time whose snapshot is read, as `2024-01-31T12:00:00Z`"),
        ),
        one_of=ONE_PLACE,
    )
    example = "path '{folder}/in'"

    def rows(self, table: IcebergTable, options: Mapping[str, str]) -> Any:
        given = {"VERSION": "versionAsOf", "TIMESTAMP": "timestampAsOf"}
        at = [f" {word} AS OF '{quoted(options[option])}'" for word, option in given.items() if option in options]
        return table.spark.sql(f"SELECT * FROM {table.sql_name()}{''.join(at)}")


class IcebergSink(FormatSink):
    """An Iceberg table, by its folder or by its name."""

    name = "iceberg"
    table_class = IcebergTable
    about = "an Iceberg table; it is made if it does not exist, with the properties that are among the options"
    options = OptionSet(
        (
            *PLACE,
            KEY,
            PARTITION_BY,
            MERGE_SCHEMA,
        ),
        one_of=ONE_PLACE,
        prefixes=PROPERTIES,
    )
    guarantee = Guarantee(
        True,
        "the epoch is one snapshot, an append or a MERGE, and the snapshot names it, so that it is not written again",
        "tests/iceberg/test_kills.py",
    )
    example = "path '{folder}/out'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        parts = options.get(PARTITION_BY.name)
        problem = None if parts is None else partitions_problem(parts, schema)
        return problem or super().problem(options, schema)

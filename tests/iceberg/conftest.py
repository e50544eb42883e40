"""A session with Iceberg for the tests of this folder: they skip where there is no Iceberg for the installed Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headgate.connectors.iceberg_table import IcebergTable
from tests.table_formats.lake import Kind, Lake


def _catalog(folder: Path) -> Mapping[str, str]:
    """A catalog as users set it."""
    name = "spark.sql.catalog.lake"
    return {name: "org.apache.iceberg.spark.SparkCatalog", f"{name}.type": "hadoop", f"{name}.warehouse": str(folder)}


def _maintenance(table: str) -> tuple[str, ...]:
    catalog, _, name = table.partition(".")
    return (
        f"CALL {catalog}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
        f"CALL {catalog}.system.rewrite_manifests(table => '{name}')",
    )


ICEBERG = Kind(IcebergTable, "make iceberg", "metadata/snap-*.avro", _maintenance, "lake.db.", _catalog)


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    yield from ICEBERG.lake(tmp_path_factory)

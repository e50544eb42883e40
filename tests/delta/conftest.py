"""A session with Delta for the tests of this folder: they skip where there is no Delta for the installed Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.connectors.delta_table import DeltaTable
from tests.table_formats.lake import Kind, Lake

DELTA = Kind(
    DeltaTable,
    "make delta",
    "_delta_log/*.json",
    lambda table: (f"OPTIMIZE {table}", f"VACUUM {table}"),
    # VACUUM lists a table with so many tasks, by default 10,000.
    settings=lambda folder: {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "2"},
)


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    yield from DELTA.lake(tmp_path_factory)

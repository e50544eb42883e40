"""A PostgreSQL server for the tests of this folder: they skip where it or its JDBC driver cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headgate.spark.packages import POSTGRESQL, PackageError, fetched
from tests.postgresql.server import Server, ServerMissing


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server of this run, with the JDBC driver at hand."""
    try:
        fetched(POSTGRESQL)
        with TemporaryDirectory(prefix="headgate-pg-", ignore_cleanup_errors=True) as folder:
            started = Server(Path(folder) / "server")
            started.start()
            yield started
            started.stop("immediate")
    except (PackageError, ServerMissing) as missing:
        pytest.skip(str(missing))

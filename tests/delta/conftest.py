"""A session with Delta for the tests of this folder: they skip where there is no Delta for the installed Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headgate.spark.packages import DELTA, PackageError, at_start, fetched
from headgate.spark.session import local_session


@pytest.fixture(scope="session")
def delta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of its own process: `make delta` runs these tests alone, with a Spark that Delta is published for."""
    try:
        fetched(DELTA)
    except PackageError as missing:
        pytest.skip(f"make delta runs it: {missing}")
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        pytest.skip("make delta runs it: a session without Delta was started before")
    place = str(tmp_path_factory.mktemp("warehouse"))
    session = local_session("headgate-delta", {**at_start({DELTA}), "spark.sql.warehouse.dir": place})
    yield session
    session.stop()

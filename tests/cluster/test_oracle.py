"""The oracle's cases on a standalone cluster of two executors, with one, two and four replicas: the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import StandaloneCluster, run_python, standalone

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.mark.parametrize(("replicas", "every"), [(1, 4), (2, 1), (4, 4)])
def test_cases_on_the_cluster(cluster: StandaloneCluster, tmp_path: Path, replicas: int, every: int) -> None:
    lines = run_python("tests.cluster.oracle", cluster.master, tmp_path, replicas, every)
    assert int(lines[-1]) > 10

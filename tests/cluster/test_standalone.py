"""On a standalone cluster of two executors, the network stays where it is: no epoch restores its state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.engine import KEYS, ROWS
from tests.cluster.standalone import StandaloneCluster, run_python, standalone

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.mark.parametrize("epochs", [30, 1000])
def test_no_epoch_restores_its_state(cluster: StandaloneCluster, tmp_path: Path, epochs: int) -> None:
    found = json.loads(run_python("tests.cluster.engine", cluster.master, tmp_path, epochs)[-1])
    rows = range(found["files"] * ROWS)
    wanted = {f"k{key}": [len(rows[key::KEYS]), sum(rows[key::KEYS])] for key in range(KEYS)}
    assert found["sums"] == wanted
    assert found["selected"] == [v for v in rows if v % 10 == 0]
    assert found["epochs"] >= epochs
    assert found["restores"] == 0
    # The settings of the session hold on executors, too.
    assert found["socket"].lower() == "true"
    assert "headgate.spark.daemon" in found["daemon"]

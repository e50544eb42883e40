"""On a standalone cluster of two executors, the network stays where it is: no epoch restores its state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.engine import KEYS, ROWS
from tests.cluster.standalone import Cluster, standalone

pytestmark = [pytest.mark.slow, pytest.mark.spark]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def run(cluster: Cluster, folder: Path, epochs: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.engine", cluster.master, str(folder), str(epochs)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("epochs", [30, 1000])
def test_no_epoch_restores_its_state(cluster: Cluster, tmp_path: Path, epochs: int) -> None:
    found = run(cluster, tmp_path, epochs)
    rows = range(found["files"] * ROWS)
    wanted = {f"k{key}": [len(rows[key::KEYS]), sum(rows[key::KEYS])] for key in range(KEYS)}
    assert found["sums"] == wanted
    assert found["selected"] == [v for v in rows if v % 10 == 0]
    assert found["epochs"] >= epochs
    assert found["restores"] == 0
    # The settings of the session hold on executors, too.
    assert found["socket"].lower() == "true"
    assert "headgate.spark.daemon" in found["daemon"]

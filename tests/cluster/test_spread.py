"""Executors with several cores: hosts are spread over all, also over those that come later; and rescaling there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.engine import KEYS, ROWS
from tests.cluster.standalone import ROOT, environment, run_python, standalone
from tests.waiting import LIMIT, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def _check(found: Any) -> None:
    rows = range(found["files"] * ROWS)
    assert found["sums"] == {f"k{key}": [len(rows[key::KEYS]), sum(rows[key::KEYS])] for key in range(KEYS)}
    assert found["whole"] == {"n": len(rows), "s": sum(rows)}


def test_hosts_start_on_all_executors(tmp_path: Path) -> None:
    """Each could have both."""
    with standalone(tmp_path / "cluster", workers=2, cores=2) as cluster:
        found = json.loads(run_python("tests.cluster.spread", cluster.master, tmp_path, 0)[-1])
    assert found["executors"][:2] == [2, 2]
    assert found["executors"][3] == 1
    assert found["restores"] == 0
    _check(found)


def test_a_host_moves_to_an_executor_that_comes_later(tmp_path: Path) -> None:
    with standalone(tmp_path / "cluster", workers=1, cores=2) as cluster:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.spread", cluster.master, str(tmp_path), "1"],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_until((tmp_path / "started").exists, process)
            cluster.workers.append(cluster.start_worker(1))
            output, errors = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
    assert process.returncode == 0, errors[-5000:]
    found = json.loads(output.splitlines()[-1])
    assert found["executors"][:2] == [1, 2]
    _check(found)

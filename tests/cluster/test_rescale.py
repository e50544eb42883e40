"""The number of replicas changes on a cluster while rows wait: every row counts exactly once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.engine import KEYS
from tests.cluster.rescale import NUMBERS, ROWS
from tests.cluster.standalone import run_python, standalone

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def test_rescaled_while_rows_wait(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with standalone(tmp_path / "cluster", workers=2, cores=2) as cluster:
        found = json.loads(run_python("tests.cluster.rescale", cluster.master, tmp_path)[-1])
    rows = range(ROWS * (len(NUMBERS) + 1))
    assert found["sent"] == len(rows)
    assert min(found["waited"]) > 0
    assert found["executors"] == 2
    keys = {f"k{key}": rows[key::KEYS] for key in range(KEYS)}
    assert {row["k"]: (row["n"], row["s"]) for row in found["sums"]} == {
        key: (len(values), sum(values)) for key, values in keys.items()
    }
    highest = sorted(keys, key=lambda key: -sum(keys[key]))[:2]
    assert {row["k"]: row["s"] for row in found["most"]} == {key: sum(keys[key]) for key in highest}

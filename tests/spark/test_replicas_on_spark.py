"""The oracle's cases on Spark with several replicas: the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_oracle_on_spark import GROUPS, run_cases

pytestmark = pytest.mark.spark

QUICK = [next(name for name in GROUPS if name.startswith(kind)) for kind in ("joins", "updates", "windows")]


@pytest.mark.parametrize("name", QUICK)
def test_cases_on_two_replicas(spark: Any, tmp_path: Path, name: str) -> None:
    run_cases(spark, GROUPS[name], tmp_path, "cqc", replicas=2)


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("name", GROUPS)
def test_all_cases_on_replicas(spark: Any, tmp_path: Path, name: str, replicas: int) -> None:
    run_cases(spark, GROUPS[name], tmp_path, "cqc", replicas=replicas)

"""The tour itself, shortened: both sides on Spark, as a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headgate


@pytest.mark.slow
def test_the_tour_compares_both_sides_and_writes_a_report(tmp_path: Path) -> None:
    source = str(Path(headgate.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "headgate.cli.main", "demo", "--seconds", "20", "--report", "tour.html"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Nothing that means nothing to a user: no warnings, no stack traces.
    assert done.stderr == ""
    for event in (
        "burst:",
        "a reading of -1000 degrees arrives",
        "query abroad fails, the others go on: ValueError: temperature -1000 is below absolute zero",
        "policy rr (all queries in turn) becomes cqc",
    ):
        assert event in done.stdout
    for cls in ("critical", "dashboard", "report"):
        assert re.search(rf"^{cls} .*\d", done.stdout, re.M)
    assert "the other 20 went on" in done.stdout
    assert "<svg" in (tmp_path / "tour.html").read_text(encoding="utf-8")

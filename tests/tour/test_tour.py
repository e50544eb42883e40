"""The tour itself, shortened: both sides on Spark, as a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headgate
from headgate.spark.packages import KAFKA, KAFKA_BROKER, PackageError, fetched


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--kafka"]], ids=["folders", "kafka"])
def test_the_tour_compares_both_sides_and_writes_a_report(tmp_path: Path, options: list[str]) -> None:
    if options:
        try:
            for package in (KAFKA, KAFKA_BROKER):
                fetched(package)
        except PackageError as error:
            pytest.skip(str(error))
    done = _demo(tmp_path, *options)
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
    report = (tmp_path / "tour.html").read_text(encoding="utf-8")
    assert "<svg" in report
    assert ("messages of Kafka" in report) == bool(options)


def test_without_a_broker_the_tour_over_kafka_is_skipped_in_one_line(tmp_path: Path) -> None:
    done = _demo(tmp_path, "--kafka", XDG_CACHE_HOME=str(tmp_path), PATH="")
    assert (done.returncode, done.stdout.count("\n")) == (1, 1)
    assert re.fullmatch(r"headgate: the tour over Kafka is skipped: there is no Maven \(mvn\) .*\n", done.stderr)


def _demo(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(headgate.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "headgate.cli.main", "demo", "--seconds", "20", "--report", "tour.html", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": source, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

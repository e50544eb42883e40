"""The programs in examples/ run as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.spark.packages import KAFKA, KAFKA_BROKER, PackageError, fetched

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SECONDS = "6"
LIMIT = 900


def run(program: str, *arguments: str, folder: Path, code: int = 0, **environment: str) -> str:
    """Runs a program in a folder of its own; returns what it printed, or its error if it must end with another code."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / program), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.slow
def test_fire_detection(tmp_path: Path) -> None:
    printed = run("fire_detection.py", SECONDS, folder=tmp_path)
    assert re.search(r"^FIRE at ridge-\d\d: \d+ degrees", printed, re.M)
    assert re.search(r"[1-9][\d,]* alerts from \d+ places", printed)
    for name in ("climate", "wind_at_fires"):
        assert re.search(rf"^{name} has [1-9]\d* rows", printed, re.M), printed


@pytest.mark.slow
def test_intrusion_detection(tmp_path: Path) -> None:
    printed = run("intrusion_detection.py", "20", folder=tmp_path)
    for name in ("probes", "scans", "intrusions", "traffic"):
        assert re.search(rf"^{name}: [1-9][\d,]* rows", printed, re.M), printed
    assert re.search(r"203\.0\.113\.\d+ probed \d+ ports", printed)


@pytest.mark.slow
def test_before_and_after_give_the_same_answers(tmp_path: Path) -> None:
    answers = []
    for program in ("before.py", "after.py"):
        printed = run(f"from_structured_streaming/{program}", SECONDS, folder=tmp_path)
        answers.append(dict(re.findall(r"^(\w+): ([\d,]+) answers", printed, re.M)))
    assert all(int(count.replace(",", "")) for count in answers[0].values())
    # Windows that end with the run depend on its end; selections do not.
    assert {name: answers[0][name] for name in ("fire", "smoke")} == {n: answers[1][n] for n in ("fire", "smoke")}


@pytest.mark.slow
def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    program = tmp_path / "notebook.py"
    program.write_text("\n".join(cells) + "\nprint('done', feeder.progress().rows)\n")
    assert re.search(r"^done [1-9]\d*$", run(str(program), folder=tmp_path), re.M)


@pytest.mark.slow
def test_auctions_start_a_broker(tmp_path: Path) -> None:
    try:
        for package in (KAFKA, KAFKA_BROKER):
            fetched(package)
    except PackageError as error:
        pytest.skip(str(error))
    printed = run("auctions_kafka.py", SECONDS, folder=tmp_path)
    assert printed.startswith("started a Kafka broker on 127.0.0.1:")
    for name in ("high_bids", "bids_on_new_auctions", "hot_items"):
        assert re.search(rf"^{name}: [1-9][\d,]* rows", printed, re.M), printed
    assert re.search(r"auction \d+ got \d+ bids within two seconds", printed)


@pytest.mark.slow
def test_auctions_say_that_there_is_no_broker(tmp_path: Path) -> None:
    said = run("auctions_kafka.py", "1", folder=tmp_path, code=1, KAFKA="127.0.0.1:1")
    assert said == "kafka 127.0.0.1:1: no broker answers; start one or give its address\n"


def test_the_dashboard_asks_for_metrics_of_the_server() -> None:
    board = json.loads((EXAMPLES / "grafana" / "dashboard.json").read_text(encoding="utf-8"))
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"headgate_(\w+)", target["expr"])
    }
    pytest.importorskip("headgate.server")
    prometheus = ROOT / "src" / "headgate" / "server" / "prometheus.py"
    known = set(re.findall(r'^\s*(?:metric\(\s*)?"(\w+)",', prometheus.read_text(encoding="utf-8"), re.M)) | set(
        re.findall(r'metric\("(\w+)"', prometheus.read_text(encoding="utf-8"))
    )
    assert asked
    assert asked <= known, asked - known

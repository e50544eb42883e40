"""Ctrl-C on a running `headgate run`: the epoch is finished, the state is kept, and the same command goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path 'in');
CREATE QUERY counts AS SELECT k, count(*) AS n FROM s GROUP BY k;
"""


def _interrupted(folder: Path, commits: int) -> str:
    """Runs the script until it has so many commits, sends one interrupt, and gives all that it wrote."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate.cli.main", "run", "script.sql", "--checkpoint", "ck"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until = time.monotonic() + 240
        while len(list((folder / "ck" / "commits").glob("*.json"))) < commits:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < until, "there was no commit in time"
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, told
    return told


def test_an_interrupt_leaves_a_state_to_go_on_from(tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text(SCRIPT)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": "a", "v": 1}\n')
    told = _interrupted(tmp_path, 1)
    assert "the same command goes on from there" in told
    assert "Traceback" not in told
    (tmp_path / "in" / "2.json").write_text('{"k": "a", "v": 2}\n')
    told = _interrupted(tmp_path, 2)
    assert "goes on after epoch 0" in told
    assert "Traceback" not in told

"""Ctrl-C on `headgate run`: the epoch is finished, the state is kept, and the same command continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import LIMIT, wait_until

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path 'in');
CREATE QUERY counts AS SELECT k, count(*) AS n FROM s GROUP BY k;
"""


def _interrupted(folder: Path, ready: Callable[[int], bool]) -> str:
    """Runs the script until its process is `ready`, sends one interrupt, and returns its output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate.cli.main", "run", "script.sql", "--checkpoint", "ck"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_until(lambda: ready(process.pid), process)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode == 0, output
    return output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.sql").write_text(SCRIPT)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": "a", "v": 1}\n')
    return tmp_path


def test_a_run_continues_after_an_interrupt(folder: Path) -> None:
    def commits(number: int) -> Callable[[int], bool]:
        return lambda _: len(list((folder / "ck" / "commits").glob("*.json"))) >= number

    output = _interrupted(folder, commits(1))
    assert "the same command continues from there" in output
    assert "Traceback" not in output
    (folder / "in" / "2.json").write_text('{"k": "a", "v": 2}\n')
    output = _interrupted(folder, commits(2))
    assert "continues after epoch 0" in output
    assert "Traceback" not in output


def _children(process: int) -> Path:
    return Path(f"/proc/{process}/task/{process}/children")


def test_an_interrupt_while_spark_starts_leaves_no_process(folder: Path) -> None:
    java: list[int] = []
    if not _children(os.getpid()).exists():
        pytest.skip("this system does not tell a process's children")

    def starting(process: int) -> bool:
        java.extend(int(child) for child in _children(process).read_text().split())
        return bool(java)

    output = _interrupted(folder, starting)
    assert "ending as soon as Spark has started" in output
    assert "Traceback" not in output
    for child in java:
        assert not Path(f"/proc/{child}/exe").exists(), "Spark's JVM runs on"

"""TERM or Ctrl-C while Spark starts: the start is finished, and no process is left.

What Ctrl-C does to a running engine is checked by `test_faults`: its place is left by one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT, wait_until

SCRIPT = """
CREATE STREAM s (k STRING, v INT) USING json OPTIONS (path 'in');
CREATE QUERY counts AS SELECT k, count(*) AS n FROM s GROUP BY k;
"""


def _children(process: int) -> Path:
    return Path(f"/proc/{process}/task/{process}/children")


@pytest.mark.spark
def test_a_stop_while_spark_starts_leaves_no_process(tmp_path: Path) -> None:
    if not _children(os.getpid()).exists():
        pytest.skip("this system does not list the children of a process")
    (tmp_path / "script.sql").write_text(SCRIPT)
    (tmp_path / "in").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate.cli.main", "run", "script.sql", "--checkpoint", "ck"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_until(lambda: bool(_children(process.pid).read_text()), process)
        java = [int(child) for child in _children(process.pid).read_text().split()]
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode == 0, output
    assert "ending as soon as Spark has started" in output
    assert "Traceback" not in output
    for child in java:
        assert not Path(f"/proc/{child}/exe").exists(), "Spark's JVM is still running"

"""TERM ends a command after what it has started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.processes import marked
from tests.waiting import wait_until

_PROGRAM = """
import signal, sys
from pathlib import Path
from headgate.cli.interrupts import unwound

folder = Path(sys.argv[1])
with unwound():
    try:
        (folder / "started").touch()
        signal.pause()
    finally:
        (folder / "stopped").touch()
"""


def test_term_stops_what_was_started(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(tmp_path)])
    wait_until((tmp_path / "started").exists, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert (tmp_path / "stopped").exists()


_ARCHIVE = """
import os, sys
from pathlib import Path
from headgate.cli.interrupts import unwound
from headgate.spark.class_archive import _run

with unwound():
    _run(["sh", "-c", "sleep 1000 & touch begun; wait"], Path(sys.argv[1]), os.environ, 1000.0)
"""


def test_term_ends_the_jvm_that_writes_the_archive_of_classes(tmp_path: Path) -> None:
    with marked("-c", _ARCHIVE, str(tmp_path)) as started:
        wait_until((tmp_path / "begun").exists, started.process)
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait() == 128 + signal.SIGTERM
        wait_until(lambda: not started.all())

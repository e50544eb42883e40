"""TERM ends a command after what it has started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

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

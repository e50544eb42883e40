"""A broker ends with the process that has started it, whatever ends that; here a script stands for Java."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import MarkedProcess, marked
from tests.waiting import wait_until

_PROGRAM = """
import sys
from pathlib import Path
from headgate.cli.interrupts import unwound
from headgate.feeder import broker

broker.fetched = lambda package: []
with unwound():
    broker.Broker(Path(sys.argv[1]) / "data", outlives=sys.argv[2] == "outlives").start()
"""


@contextmanager
def _starting(folder: Path, outlives: str = "") -> Iterator[MarkedProcess]:
    """A process that waits for a broker to open its port."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexec sleep 1000\n")
    java.chmod(0o755)
    path = os.pathsep.join([str(java.parent), os.environ["PATH"]])
    with marked("-c", _PROGRAM, str(folder), outlives, PATH=path) as started:
        wait_until(lambda: started.runs("sleep 1000"), started.process)
        yield started


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_it_ends_with_its_starter(tmp_path: Path, number: signal.Signals) -> None:
    with _starting(tmp_path) as started:
        started.process.send_signal(number)
        started.process.wait()
        wait_until(lambda: not started.all())


def test_one_that_outlives_its_starter(tmp_path: Path) -> None:
    with _starting(tmp_path, "outlives") as started:
        started.process.kill()
        started.process.wait()
        assert started.runs("sleep 1000")

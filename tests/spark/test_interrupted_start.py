"""A JVM that is still starting when its driver is ended does not stay behind; here a script stands for spark-submit."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.processes import marked
from tests.waiting import wait_until

_PROGRAM = """
from headgate.cli.interrupts import unwound
from headgate.spark.session import {session}

with unwound():
    {session}("test")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("session", ["local_session", "untuned_session"])
def test_no_jvm_is_left(tmp_path: Path, session: str, number: signal.Signals) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\nexec sleep 1000\n")
    submit.chmod(0o755)
    program = _PROGRAM.format(session=session)
    with marked("-c", program, SPARK_HOME=str(tmp_path), HEADGATE_CLASS_ARCHIVE="off") as started:
        wait_until(lambda: started.runs("sleep 1000"), started.process)
        started.process.send_signal(number)
        started.process.wait()
        wait_until(lambda: not started.all())

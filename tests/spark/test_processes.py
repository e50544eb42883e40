"""Which process a Python worker belongs to."""

from __future__ import annotations

import os
import subprocess
import sys

WORKER = """
import os, sys, time
from headgate.spark.processes import Orphaned, executor_pid

os.setpgid(0, 0)
daemon = os.getpid()
read, write = os.pipe()
if os.fork() == 0:
    os.close(write)
    found = executor_pid()
    os.read(read, 1)
    while os.getppid() == daemon:
        time.sleep(0.001)
    try:
        print(found == daemon, "orphan of", executor_pid(), flush=True)
    except Orphaned as error:
        print(found == daemon, error, flush=True)
"""


def test_a_worker_whose_daemon_was_killed_takes_nobody_else_for_its_executor() -> None:
    """A supervisor that ended with the first process of the machine would never end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in sys.path)}
    found = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, env=environment, check=True)
    assert found.stdout.startswith("True Orphaned: Spark's daemon"), found.stdout + found.stderr

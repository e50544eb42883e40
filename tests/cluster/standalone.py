"""Spark's standalone cluster for tests, and processes that use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from headgate.bench.standalone import StandaloneCluster, standalone

__all__ = ["ROOT", "StandaloneCluster", "environment", "run_python", "standalone"]

ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """The environment of a process that imports the tests."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))}


def run_python(module: str, *arguments: object) -> list[str]:
    """Runs a module of the tests in a process of its own, and returns the lines that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout.splitlines()

"""Waits for what another thread or process does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

LIMIT = 600.0
"""Seconds after which a test gives up on an event: far more than a busy machine needs."""


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[Any] | None = None) -> None:
    """Returns once the condition holds. Fails if the process ends first, or after LIMIT."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert process is None or process.poll() is None, f"the process ended with code {process.returncode}"
        assert time.monotonic() < end, f"nothing happened for {LIMIT:g} seconds"
        time.sleep(0.05)

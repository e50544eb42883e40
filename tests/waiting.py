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
    end, pause = time.monotonic() + LIMIT, 0.001
    while not condition():
        if process is not None and process.poll() is not None:
            output = [text for text in process.communicate() if text]
            raise AssertionError(f"the process ended with code {process.returncode}: {output}")
        assert time.monotonic() < end, f"nothing happened for {LIMIT:g} seconds"
        time.sleep(pause)
        pause = min(2 * pause, 0.05)

"""Finds threads of Headgate that outlive their test: they keep memory and slow down the tests after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 60.0
"""Seconds that threads that were told to end may take."""

STAY = frozenset({"headgate-jvm-warnings", "headgate-stuck"})
"""Threads that may outlive a test: the first lives as long as the JVM, which all tests of a process share; the second
keeps nothing alive and ends soon after its network."""


@contextmanager
def no_threads_left(patience: float = PATIENCE) -> Iterator[None]:
    """Fails if a thread of Headgate that was started in the block still runs after it."""
    before = set(threading.enumerate())
    yield
    started = [thread for thread in threading.enumerate() if thread not in before]
    left = [thread for thread in started if thread.name.startswith("headgate") and thread.name not in STAY]
    until = time.monotonic() + patience
    for thread in left:
        thread.join(max(0.0, until - time.monotonic()))
    alive = sorted(thread.name for thread in left if thread.is_alive())
    assert not alive, f"these threads still run: {', '.join(alive)}; close what has started them"

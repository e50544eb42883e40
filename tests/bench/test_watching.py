"""The cost of watching: whose processor time is measured."""

from __future__ import annotations

import threading
import time

from headgate.bench.watching import thread_time
from tests.waiting import wait_until


def test_only_the_time_of_the_thread_counts() -> None:
    """One thread computes until another one, which waits, is told to end."""
    over = threading.Event()
    waits = threading.Thread(target=over.wait)

    def compute() -> None:
        while not over.is_set():
            sum(range(1000))

    computes = threading.Thread(target=compute)
    waits.start()
    computes.start()
    try:
        wait_until(lambda: thread_time(computes) > 0.2)
        assert thread_time(waits) < 0.1 * thread_time(computes)
        assert thread_time(computes) <= time.process_time()
    finally:
        over.set()
        waits.join()
        computes.join()

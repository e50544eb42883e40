"""The lock of a network: grants pass one after the other, and wait while the network is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock

from headgate.runtime.flow import Flow


class Gate:
    """One lock for queues, view, scheduler and memory, and who runs now. Operators run without the lock.

    `running` has the flows (by id) that have a grant, which know what they run and since when; `paused` counts those
    who want that nothing runs. Threads that have nothing to do wait for `work` (`asleep` counts them), who waits for
    them for `done`.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.changed = Condition(self.lock)
        self.work = Condition(self.lock)
        self.done = Condition(self.lock)
        self.running: dict[int, Flow] = {}
        self.paused = 0
        self.asleep = 0

    def sleep(self, seconds: float) -> bool:
        """Under the lock: waits for work; False if none came in this time."""
        self.asleep += 1
        try:
            return self.work.wait(seconds)
        finally:
            self.asleep -= 1

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the lock while no grant runs, and keeps it so to the end."""
        with self.lock, self.still():
            yield

    @contextmanager
    def still(self) -> Iterator[None]:
        """Under the lock: waits until no grant runs. Never used by a thread that runs one."""
        self.paused += 1
        try:
            while self.running:
                self.changed.wait()
            yield
        finally:
            self.paused -= 1
            self.changed.notify_all()
            if not self.paused:
                self.work.notify_all()

    def leave(self, flow: int) -> None:
        """Under the lock: a grant is over; whoever waited for it goes on."""
        del self.running[flow]
        if self.paused:
            self.changed.notify_all()

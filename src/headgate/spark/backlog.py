"""Runs epochs without new rows, so that rows waiting in queues are processed while no lane brings any."""

from __future__ import annotations

import threading
import time

from headgate.spark.epochs import Epochs, EpochsClosed
from headgate.spark.lanes import Lanes

_GIVE_WAY = 0.2
"""The longest time (s) that an epoch without new rows waits for a lane that is about to deliver rows."""

_LOOK_EVERY = 0.2


class Backlog:
    """A thread that runs such epochs until it is stopped. An epoch that fails finally ends the engine."""

    def __init__(self, epochs: Epochs, lanes: Lanes) -> None:
        self._epochs = epochs
        self._lanes = lanes
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="headgate-backlog", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Rows are waiting."""
        self._wake.set()

    def stop(self) -> None:
        """Starts no more epochs; does not wait for the running one."""
        self._stopping.set()
        self._wake.set()

    def join(self) -> None:
        """Waits for the end of the thread, after `stop`."""
        self._thread.join()

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(_LOOK_EVERY)
            self._wake.clear()
            if self._stopping.is_set():
                return
            try:
                self._give_way()
                self._epochs.run_backlog()
            except EpochsClosed:
                return
            except Exception as error:
                self._lanes.fail(error)
                return

    def _give_way(self) -> None:
        """New rows would have to wait until an epoch of the backlog ends."""
        until = time.monotonic() + _GIVE_WAY
        while self._epochs.waiting and self._lanes.delivering and time.monotonic() < until:
            time.sleep(0.005)

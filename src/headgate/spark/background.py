"""The thread that runs the network of a host between epochs."""

from __future__ import annotations

import logging
import os
import sys
import threading

from headgate.spark.resident import ResidentNetwork

_LOG = logging.getLogger("headgate.host")

NICENESS = 10
"""Of the background thread, where a thread can have its own (Linux): an epoch with new rows, Spark's part of it
included, does not wait for a processor that works off a backlog."""


class Background:
    """The thread that runs a network while no epoch is cut. It sleeps when nothing is ready.

    `run` gives it a network, `stop` returns once it does not run any more; both are called by the thread that has the
    turn. `grants` and `seconds` count its work since the last `count`. `close` ends the thread for good.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._resident: ResidentNetwork | None = None
        self._ready = False
        self._active = self._closed = False
        self._grants = 0
        self._operator_seconds = 0.0
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="headgate-background", daemon=True)
        self._thread.start()

    def run(self, resident: ResidentNetwork) -> None:
        """Runs the network from now on, until `stop`."""
        resident.network.start_threads()
        with self._changed:
            self._resident, self._ready, self._error = resident, True, None
            self._changed.notify_all()

    def wake(self) -> None:
        """The network has new rows."""
        with self._changed:
            if not self._ready:
                self._ready = True
                self._changed.notify_all()

    def stop(self) -> None:
        """Ends the work after the present grant. Raises what the network itself raised meanwhile."""
        with self._changed:
            self._resident = None
            while self._active:
                self._changed.wait()
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the thread after the present grant, and waits for its end; nothing may be run afterwards."""
        with self._changed:
            self._resident, self._closed = None, True
            self._changed.notify_all()
        self._thread.join()

    def count(self) -> tuple[int, float]:
        """Grants, and seconds in operators, since the last call."""
        with self._changed:
            found = self._grants, self._operator_seconds
            self._grants, self._operator_seconds = 0, 0.0
            return found

    def _work(self) -> None:
        if sys.platform == "linux":
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)
        while True:
            with self._changed:
                while self._resident is None or not self._ready:
                    if self._closed:
                        return
                    self._changed.wait()
                resident, self._ready, self._active = self._resident, False, True
            error: Exception | None = None
            grants, seconds = 0, 0.0
            try:
                report = resident.network.run(interrupted=lambda of=resident: self._resident is not of)  # type: ignore[misc]
                grants, seconds = report.grants, report.operator_seconds
            except Exception as raised:  # the network itself failed: the epoch that follows says so
                _LOG.exception("the network failed between two epochs")
                error = raised
            del resident
            with self._changed:
                self._active = False
                self._grants += grants
                self._operator_seconds += seconds
                if error is not None:
                    self._error, self._resident = error, None
                self._changed.notify_all()

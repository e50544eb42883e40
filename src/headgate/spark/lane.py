"""A lane: one Structured Streaming query that delivers the rows of one or more streams."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from headgate.spark.gate import Gate
from headgate.spark.pace import Pace
from headgate.spark.packages import see_added


class BatchFailed(RuntimeError):
    """What Spark is told of an epoch that failed. The error itself stays here: Spark matches the text of a Python error
    with a pattern that overflows the stack of its thread if the text is long, as one with a stack of the JVM is."""


class LaneClosed(RuntimeError):
    """The lane is being stopped; Spark delivers the batch again after its next start."""


@dataclass(frozen=True)
class LaneBatch:
    """A micro-batch of a lane. Spark counts it as done when `done` has a result, and stops the lane if it has an error.

    `frame` holds the packed rows if the lane is careful; else the answers of the hosts, which collecting it asks for.
    `waited`: seconds that rows may have waited before the batch, since Spark last looked for new ones.
    """

    lane: Lane
    batch: int
    frame: Any
    arrived: float = field(default_factory=time.time)
    waited: float = 0.0
    done: Future[None] = field(default_factory=Future)


class Lane:
    """A started lane, or one that can be started once.

    - `key`: names the packing of its rows
    - `frame`: the streaming DataFrame that it runs; `careful`: see `LaneBatch`
    - `deliver` is called with every micro-batch on a thread of Spark's, `ended` on a thread of its own with the error
      that ended the lane, or None
    - `folders`: the local folders from which all its rows come; None if some come from elsewhere
    - `pace` says how long Spark waits after a batch before it looks for new rows; None: not at all
    """

    def __init__(
        self,
        name: str,
        key: str,
        frame: Any,
        careful: bool,
        checkpoint: str,
        deliver: Callable[[LaneBatch], None],
        ended: Callable[[Lane, Exception | None], None],
        folders: Sequence[str] | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.name = name
        self.key = key
        self.careful = careful
        self._frame = frame
        self._checkpoint = checkpoint
        self._deliver = deliver
        self._ended = ended
        self._folders = folders
        self._pace = pace
        self._gate: Gate | None = None
        self._closing = threading.Event()
        self._hurried = threading.Event()
        self._lock = threading.Lock()
        self._query: Any = None
        self._error: BaseException | None = None

    def start(self, *, once: bool, every: float = 0.0) -> None:
        """Starts reading and polls every `every` seconds; with `once`, reads the rows available now and ends."""
        see_added(self._frame.sparkSession)
        # Another engine may use the same session, where a name can be used once.
        writer = self._frame.writeStream.queryName(f"headgate-{self.name}-{uuid4().hex[:8]}")
        writer = writer.option("checkpointLocation", self._checkpoint).foreachBatch(self._batch)
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every} seconds")
        if once:
            self._pace = None
        self._query = writer.start()
        if not once:
            self._gate = Gate(self._query, self._folders)
        threading.Thread(target=self._await_end, name=f"headgate-{self.name}", daemon=True).start()

    @property
    def delivering(self) -> bool:
        """Whether it has found rows that it is about to deliver, or has just delivered."""
        if self._query is None or not self._query.isActive:
            return False
        status = self._query.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    def close(self) -> None:
        """From now on batches are refused, so that `stop` need not wait for an epoch."""
        with self._lock:
            self._closing.set()
        self._hurried.set()

    def hurry(self) -> None:
        """Ends the present pause, or the next one: Spark looks for new rows at once. Any thread may call it."""
        self._hurried.set()

    def stop(self) -> None:
        """Waits for its end; all batches that it has delivered must be done. Called after `close`."""
        if self._gate is not None:
            self._gate.close()
        if self._query is not None:
            self._query.stop()

    def _batch(self, frame: Any, number: int) -> None:
        pace = self._pace
        batch = LaneBatch(self, int(number), frame, waited=pace.begin(self.name) if pace is not None else 0.0)
        with self._lock:
            if self._closing.is_set():
                raise LaneClosed(f"lane {self.name} is being stopped")
            self._deliver(batch)
        self._error = batch.done.exception()
        if self._error is not None:
            raise BatchFailed(f"the epoch of batch {number} of lane {self.name} failed")
        if pace is not None:
            # Spark looks for new rows when this returns.
            self._hurried.wait(pace.end(self.name))
            self._hurried.clear()
            pace.release(self.name)

    def _await_end(self) -> None:
        error: Exception | None = None
        try:
            self._query.awaitTermination()
        except Exception as raised:
            error = self._error if isinstance(self._error, Exception) else raised
        self._ended(self, error)

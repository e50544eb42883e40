"""A lane: one Structured Streaming query that delivers the rows of one or more streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.spark.gate import Gate
from headgate.spark.packing import Packing


class Lane:
    """Reads the union of `frames`, laid into the slots of `packing`, and passes every micro-batch to `deliver`.

    `deliver(lane, batch_id, frame)` runs on a thread of Spark's; when it returns, Spark counts the batch as done,
    and when it raises, the lane stops and `failure` says why. `folders`: the local folders from which all its rows
    come; None if some come from elsewhere.
    """

    def __init__(
        self,
        name: str,
        frames: Sequence[Any],
        packing: Packing,
        deliver: Callable[[Lane, int, Any], None],
        checkpoint: str,
        folders: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.packing = packing
        self._frames = list(frames)
        self._deliver = deliver
        self._checkpoint = checkpoint
        self._folders = folders
        self._query: Any = None
        self._gate: Gate | None = None

    def start(self, *, once: bool, every: float = 0.0) -> None:
        """Starts reading and polls every `every` seconds; with `once`, reads the rows available now and ends."""
        union = self._frames[0]
        for frame in self._frames[1:]:
            union = union.unionByName(frame)
        writer = union.writeStream.queryName(f"headgate-{self.name}").option("checkpointLocation", self._checkpoint)
        writer = writer.foreachBatch(lambda frame, batch: self._deliver(self, int(batch), frame))
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every} seconds")
        self._query = writer.start()
        if not once:
            self._gate = Gate(self._query, self._folders)

    @property
    def active(self) -> bool:
        return self._query is not None and bool(self._query.isActive)

    @property
    def delivering(self) -> bool:
        """Whether it has found rows that it is about to deliver, or has just delivered."""
        if not self.active:
            return False
        status = self._query.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    @property
    def failure(self) -> Exception | None:
        """Why it stopped without `stop`, or None."""
        return self._query.exception() if self._query is not None else None

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end; True if it has ended, False after `seconds`."""
        from pyspark.errors import StreamingQueryException

        try:
            if seconds is None:
                self._query.awaitTermination()
                return True
            return bool(self._query.awaitTermination(seconds))
        except StreamingQueryException:
            return True

    def stop(self) -> None:
        if self._gate is not None:
            self._gate.close()
        if self._query is not None:
            self._query.stop()

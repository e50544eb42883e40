"""Decides which failed epochs are retried, and what is reported for the others."""

from __future__ import annotations

import re
import time

from headgate.graph.secrets import hidden
from headgate.spark.checkpoint import CheckpointError
from headgate.spark.error_causes import lost
from headgate.spark.messages import BLAMED
from headgate.spark.source_rows import SourceError

_RETRIES = 5
_RETRY_WINDOW = 60.0
"""Seconds without a failure after which the count of retries starts again, as it does after an epoch that succeeds."""

_UNWRITABLE = ("No space left on device", "Read-only file system", "Disk quota exceeded")

_HOST_LOST = re.compile(r"headgate\.spark\.host_client\.HostLost: HostLost: (.*)")
"""The line of a task's traceback that says which host was lost, and how."""

_GONE = {
    "UnknownTopicOrPartitionException": "a topic is gone from Kafka",
    "org.apache.kafka.common.errors.TimeoutException": "Kafka does not answer",
    "Timed out waiting for a node assignment": "Kafka does not answer",
}
"""Signs of a Kafka cluster that was lost while the engine ran, and what they mean."""


class LaneError(RuntimeError):
    """A lane has stopped and is not restarted; the message says why."""


class EpochFailures:
    """Counts the failures of one loop of epochs. Used by one thread."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint
        self._retries = 0
        self._last = time.monotonic()

    @staticmethod
    def transient(error: Exception) -> bool:
        """Whether a retry of the epoch may succeed: a host, a worker, an executor or a file was lost."""
        return not isinstance(error, CheckpointError) and lost(error)

    def succeeded(self) -> None:
        """Records that an epoch is committed: earlier failures no longer count."""
        self._retries = 0

    def final(self, error: Exception) -> Exception | None:
        """None if the epoch may be retried; else the error that ends the run, in one line."""
        transient = self.transient(error)
        if transient and BLAMED in str(error):
            return None
        now = time.monotonic()
        if now - self._last > _RETRY_WINDOW:
            self._retries = 0
        self._retries, self._last = self._retries + 1, now
        if self._retries <= _RETRIES and transient:
            return None
        return _cause(error, self._checkpoint)


def _cause(error: Exception, checkpoint: str) -> Exception:
    """The error in one line: the one raised in the epoch, without Spark's wrapping."""
    if type(error).__module__.startswith("headgate."):
        return error
    text = str(error)
    lines = [line.strip() for line in text.splitlines()] or [type(error).__name__]
    ours = [line for line in lines if line.startswith("headgate.") and "Error: " in line]
    if ours:
        kind, _, said = ours[-1].partition("Error: ")
        return CheckpointError(said) if kind.endswith(".Checkpoint") else LaneError(said)
    gone = [lost[1] for line in lines if (lost := _HOST_LOST.match(line))]
    if gone:
        return LaneError(
            f"{gone[-1]}; it was lost {_RETRIES + 1} times in a row, and nothing of this epoch was committed"
        )
    for sign in _UNWRITABLE:
        if sign in text:
            return CheckpointError(
                f"checkpoint {checkpoint}: Spark cannot write its log of the lane: {sign}; nothing is lost: start again"
                " when the folder can be written"
            )
    for sign, meaning in _GONE.items():
        if sign in text:
            return SourceError(f"{meaning}; nothing is lost: start again when it is back")
    # The last Python exception of the epoch, if there is one; its traceback is of no use to users.
    found = re.findall(r"(?m)^(?:: )?[\w.$]+(?:Error|Exception): (.+)$", text.partition("=== Streaming Query ===")[0])
    raised = [line for line in found if not line.startswith("An error occurred while calling")]
    said = raised[-1] if raised else re.sub(r"^\[STREAM_FAILED\].*? terminated with exception: ", "", lines[0])
    return LaneError(hidden(re.split(r"\.? SQLSTATE:", said)[0]))

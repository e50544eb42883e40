"""Which failures are the user's to mend: their message is shown as it is, and the exit code is 1."""

from __future__ import annotations


class InputError(ValueError):
    """The user gave something wrong on the command line or in a file; the message says what to do."""


def is_users_fault(error: BaseException) -> bool:
    """Whether the error tells of the user's input rather than of a fault of ours."""
    from headgate.scheduling.errors import SchedulingError
    from headgate.sql.errors import SqlError

    if isinstance(error, InputError | SqlError | SchedulingError):
        return True
    # These import Spark, which takes a while: asked only when something that could be theirs was raised.
    if not type(error).__module__.startswith("headgate."):
        return False
    from headgate.spark.checkpoint import CheckpointError
    from headgate.spark.sinks import SinkError
    from headgate.spark.sources import SourceError

    return isinstance(error, CheckpointError | SinkError | SourceError)

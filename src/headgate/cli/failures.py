"""Distinguishes errors in the user's input, which are shown as one line with exit code 1, from other errors."""

from __future__ import annotations


class InputError(ValueError):
    """The command line or a file is wrong; the message says what to do."""


def reason(error: OSError) -> str:
    """What the operating system reports, without the path."""
    return (error.strerror or str(error)).lower()


def is_users_fault(error: BaseException) -> bool:
    """Whether the error is caused by the user's input rather than by a bug in Headgate."""
    from headgate.scheduling.errors import SchedulingError
    from headgate.server.access import AccessError
    from headgate.server.client import ServerError
    from headgate.sql.errors import SqlError

    if isinstance(error, InputError | SqlError | SchedulingError | AccessError | ServerError):
        return True
    # These modules import Spark, which is slow: they are imported only for errors that Headgate raised.
    if not type(error).__module__.startswith("headgate."):
        return False
    if type(error).__module__.startswith("headgate.feeder."):
        from headgate.feeder import FeedError

        return isinstance(error, FeedError)
    from headgate.control.query_control import EngineError
    from headgate.spark.checkpoint import CheckpointError
    from headgate.spark.executor_start import ExecutorError
    from headgate.spark.results import SinkError
    from headgate.spark.source_rows import SourceError

    return isinstance(error, CheckpointError | EngineError | ExecutorError | SinkError | SourceError)

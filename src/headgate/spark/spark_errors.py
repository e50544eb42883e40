"""Spark's errors: the exception types, the reason in one line, and suppressing PySpark's log of expected errors."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headgate.spark.error_causes import in_python, java_causes, outside

LONGEST = 500
"""Maximum number of characters of a reason; a longer one is truncated."""

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's loggers that write the JVM's stack of an error to standard error when the exception is made."""

# A line that names a Java exception: the first of a stack, that of a cause, or that of a task in the driver's message.
_RAISED = re.compile(
    r"^(?:: |Caused by: )?(?:.*\(TID \d+\) \(.*?\): )?((?:[a-z]\w*\.)+[A-Z][\w$]*?)(?:: (.*))?$", re.MULTILINE
)
_CALLING = "An error occurred while calling "
"""How py4j's messages begin; the JVM drops the stack of an error that it raises often."""


def spark_errors() -> tuple[type[Exception], ...]:
    """The exceptions by which Spark reports what failed in the JVM. PySpark converts only some of Java's; a JVM that is
    gone raises none of these."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JJavaError


def may_be_catalyst(error: Exception) -> bool:
    """Whether an error of a job may be one of planning or evaluating its expressions; not if Python code raised it."""
    return isinstance(error, spark_errors()) and not in_python(error)


class JobLost(RuntimeError):
    """A job failed for a reason that is not in its expressions: an executor is lost, a disk is full, the job was
    cancelled."""


def job_error(frame: Any) -> Exception | None:
    """Plans and computes all columns of a frame, and returns the error that this raised, or None; or raises JobLost."""
    try:
        with expecting_errors():
            frame.write.format("noop").mode("overwrite").save()
    except spark_errors() as error:
        if outside(error):
            raise JobLost(reason(error)) from error
        return error
    return None


def reason(error: Exception) -> str:
    """Spark's message in one line: without the statement, the stack, and what a failed job wraps around it."""
    text = str(error)
    raised = _RAISED.findall(text) if "\tat " in text or text.startswith(_CALLING) else []
    if text.startswith(_CALLING):
        # The text of a row may look like the lines of a stack.
        raised = [(each.kind, each.message.partition("\n")[0]) for each in java_causes(error)] or raised
    conditions = [said for _, said in raised if said.startswith("[") and not said.startswith("[STREAM_FAILED]")]
    if conditions:
        found = conditions[0]
    elif raised:
        kind, said = raised[-1]
        kind = re.split(r"[.$]", kind)[-1]
        said = said or ("the expression is nested too deeply" if kind == "StackOverflowError" else "")
        found = f"{kind}: {said}" if said else kind
    else:
        lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
        found = f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
    found = re.split(r"; line \d+ pos|\.? SQLSTATE:", found)[0].strip()
    return found if len(found) <= LONGEST else f"{found[:LONGEST]}…"


class _Unexpected(logging.Filter):
    """Drops the log records of threads that expect errors."""

    def __init__(self) -> None:
        super().__init__()
        self.local = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self.local, "expecting", False)


_unexpected = _Unexpected()


@contextmanager
def expecting_errors() -> Iterator[None]:
    """A context in which PySpark does not log the stacks of errors that this thread gets from Spark."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        # Not logging.getLogger: a plain logger of this name makes PySpark raise a TypeError instead of its own error.
        PySparkLogger.getLogger(name).addFilter(_unexpected)
    before = getattr(_unexpected.local, "expecting", False)
    _unexpected.local.expecting = True
    try:
        yield
    finally:
        _unexpected.local.expecting = before

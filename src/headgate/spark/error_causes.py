"""What failed, by the classes of an error's causes.

A message may contain the text of a row: of a date that cannot be parsed, Spark quotes the text. So a message is only
matched from its start, and only under the class that begins it so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_DEEPEST = 20
"""Number of causes, at most, that are looked at."""


@dataclass(frozen=True)
class Cause:
    """A cause of an error: the full name of its class, and its message."""

    kind: str
    message: str

    @property
    def condition(self) -> str:
        """Spark's name of the error, for example DIVIDE_BY_ZERO; empty if the message begins with none."""
        found = re.match(r"\[([A-Z_][A-Z0-9_.]*)\]", self.message)
        return "" if found is None else found[1]


_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Za-z_][\w$]*"
_RAISED = re.compile(rf"({_NAME})(?:: (.*))?", re.DOTALL)
"""A class and its message, as Java and Python write an exception."""

_QUERY_FAILED = re.compile(r"\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
_TASK_FAILED = re.compile(r"Job aborted due to stage failure: (?:Task [^()]*\(TID \d+\) \([^()]*\): )?")
_CALLING = re.compile(r"An error occurred while calling \S+\n: ")

_PYTHON = "org.apache.spark.api.python.PythonException"

_NO_EXPRESSION = {
    *("STREAM_FAILED", "TASK_WRITE_FAILED", "SPARK_JOB_CANCELLED", "FAILED_READ_FILE"),
    *("PYTHON_EXCEPTION", "CANNOT_OPEN_SOCKET"),
}
"""Conditions, or the first parts of them, of what fails without an expression."""

_SPARK = r"(?:org\.apache\.spark\.\S*|pyspark\.errors\.\S*|)"
_IO = r"(?:java\.io\.|java\.nio\.file\.|java\.net\.|org\.apache\.hadoop\.fs\.)\w*(?:Exception|Error)"

_LOST = tuple(
    (re.compile(kind), re.compile(message, re.DOTALL))
    for kind, message in (
        (r"headgate\.spark\.(?:host_client\.HostLost|wire\.ConnectionLost|processes\.Orphaned)", ""),
        (r"(?:builtins\.)?(?:ConnectionResetError|ConnectionAbortedError|BrokenPipeError|EOFError)", ""),
        (_IO, r"(?:java\.\S+: )?(?:Connection reset|Broken pipe|Accept timed out)"),
        (r"java\.io\.EOFException|org\.apache\.spark\.ExecutorDeadException", ""),
        (_SPARK, r"Python worker exited unexpectedly|ExecutorLost"),
        (_SPARK, r"\[(?:FAILED_READ_FILE\.FILE_NOT_EXIST|CANNOT_OPEN_SOCKET)\]"),
    )
)
"""A host, a worker or an executor was lost, a worker started too late on a busy machine, or a file of a stream was
removed after Spark had listed it; a retry lists the folder again."""

_OUTSIDE = tuple(
    (re.compile(kind), re.compile(message, re.DOTALL))
    for kind, message in (
        (_SPARK, r"ExecutorLostFailure|FetchFailed|TaskKilled"),
        (_SPARK, r"Job aborted due to stage failure: \w*Stage .{0,200}? has failed the maximum allowable number"),
        (_SPARK, r"(?:\[SPARK_JOB_CANCELLED\] )?(?:Job|Stage|Task) .{0,80}?\b(?:cancelled|canceled|killed)\b"),
        (_SPARK, r"(?:\[\w+\] )?(?:Job \d+ cancelled because )?SparkContext (?:was shut|has been shut)"),
        (_IO, r".*\b(?:No space left on device|Disk quota exceeded|Read-only file system)\)?$"),
        (r"java\.lang\.InterruptedException|java\.nio\.channels\.ClosedByInterruptException", ""),
    )
)
"""An executor is lost, a disk is full, or the job was cancelled."""


def causes(error: BaseException) -> tuple[Cause, ...]:
    """An error and its causes, the outermost first: by the objects of the JVM, else by the error's text."""
    found: list[Cause] = []
    for each in java_causes(error) or _by_text(error):
        found.append(each)
        found += _told_of(each)
    return tuple(found)


def lost(error: BaseException) -> bool:
    """Whether a host, a worker, an executor or a file of a stream was lost, so that a retry may succeed."""
    return _matches(causes(error), _LOST)


def outside(error: BaseException) -> bool:
    """Whether a job failed for a reason that is not in its expressions, besides those of `lost`."""
    return _matches(causes(error), _OUTSIDE)


def in_python(error: BaseException) -> bool:
    """Whether Python code in a task raised it."""
    return any(each.kind in (_PYTHON, "pyspark.errors.exceptions.captured.PythonException") for each in causes(error))


def _matches(found: tuple[Cause, ...], signs: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]) -> bool:
    conditions = {each.condition.partition(".")[0] for each in found} - {""}
    if conditions - _NO_EXPRESSION:
        return False  # an expression was evaluated, or could not be planned
    if any(each.kind.endswith((".HostRefused", ".CheckpointError")) for each in found):
        return False
    return any(kind.fullmatch(each.kind) and message.match(each.message) for each in found for kind, message in signs)


def java_causes(error: BaseException) -> list[Cause]:
    """The chain of Java exceptions behind an error of PySpark; empty if there is none or the JVM is gone."""
    raised: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found: list[Cause] = []
    try:
        while raised is not None and len(found) < _DEEPEST:
            found.append(Cause(str(raised.getClass().getName()), str(raised.getMessage() or "")))
            raised = raised.getCause()
    except Exception:
        # The connection to the JVM is lost.
        return []
    return found


def _by_text(error: BaseException) -> Iterator[Cause]:
    text = str(error)
    calling = _CALLING.match(text)
    if calling is not None:
        text = text[calling.end() :]
    else:
        yield Cause(f"{type(error).__module__}.{type(error).__qualname__}", text)
        if Cause("", text).condition not in ("", "STREAM_FAILED"):
            return
    for part in re.split(r"(?m)^Caused by: ", text):
        raised = _RAISED.match(_stackless(part))
        if raised is not None and "." in raised[1]:
            yield Cause(raised[1], raised[2] or "")


def _stackless(part: str) -> str:
    return re.split(r"\n\tat |\n\t\.\.\. ", part, maxsplit=1)[0].rstrip()


def _told_of(cause: Cause) -> Iterator[Cause]:
    """The causes that a message names: Spark puts what failed in a task, or in Python, into the message of another."""
    text = cause.message
    for prefix in (_QUERY_FAILED, _TASK_FAILED):
        begun = prefix.match(text)
        if begun is not None:
            text = text[begun.end() :]
            raised = _RAISED.match(_stackless(text))
            if raised is not None and "." in raised[1]:
                cause = Cause(raised[1], raised[2] or "")
                yield cause
                text = cause.message
            else:
                yield Cause("", text)
    if cause.kind == _PYTHON or cause.kind.startswith("pyspark.errors."):
        yield from _python_errors(text)


def _python_errors(text: str) -> Iterator[Cause]:
    """The exceptions of Python tracebacks: each is the first line after the indented lines of its frames."""
    in_frames = False
    for line in text.splitlines():
        if line.endswith("Traceback (most recent call last):"):
            in_frames = True
        elif in_frames and not line.startswith(" "):
            in_frames = False
            raised = _RAISED.fullmatch(line)
            if raised is not None:
                yield Cause(raised[1], raised[2] or "")

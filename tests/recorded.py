"""Files with answers that Spark gave, each with a stamp: the version of Spark, and a hash of the rest of the file.

    # answers recorded from Spark 4.3.0: 1f0c2a9be47d5a30

The recorders write it (`python -m tests.oracle.record`, `python -m tests.expressions.record`). While the stamp fits,
only `make test-all` puts the questions to Spark again. After any change of the file, or of the installed PySpark, it
does not fit, and every run of the tests asks Spark until the file is recorded again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from importlib.metadata import version
from os.path import relpath
from pathlib import Path
from typing import Any
from warnings import warn

import pytest

_STAMP = re.compile(r"^# answers recorded from Spark .*\n", re.MULTILINE)


def stamped(text: str, spark: str) -> str:
    """The text of a file with the stamp that fits it, below the comments at its top."""
    rest = _STAMP.sub("", text)
    start = next((m.start() for m in re.finditer(r"^(?!#)", rest, re.MULTILINE)), len(rest))
    digest = sha256(rest.encode()).hexdigest()[:16]
    return f"{rest[:start]}# answers recorded from Spark {spark}: {digest}\n{rest[start:]}"


def write_stamped(file: Path, text: str) -> None:
    """Writes answers that the installed Spark has just given."""
    file.write_text(stamped(text, version("pyspark")), encoding="utf-8")


def is_recorded(file: Path) -> bool:
    """Whether the installed Spark gave the answers to exactly what the file says."""
    text = file.read_text(encoding="utf-8")
    return text == stamped(text, version("pyspark"))


def asked_when_changed(files: Iterable[Path], recorder: str) -> dict[Path, list[Any]]:
    """For each file, the marks of a test that asks Spark: it is slow while the answers are recorded."""
    marks: dict[Path, list[Any]] = {file: [pytest.mark.slow] if is_recorded(file) else [] for file in files}
    changed = " ".join(relpath(file) for file, found in marks.items() if not found)
    if changed:
        warn(f"Spark is asked again until its answers are recorded: python -m {recorder} {changed}", stacklevel=2)
    return marks

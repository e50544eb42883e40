"""Removes a JVM warning that users can do nothing about from standard error."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MEANINGLESS = (b"WARNING: Using incubator modules:",)
"""Spark asks for the module; the JVM prints this at every start, and has no option to suppress it."""


@contextmanager
def without_warnings() -> Iterator[None]:
    """Processes started inside this context write to standard error through a filter, for their whole life."""
    try:
        terminal = os.dup(2)
    except OSError:
        # There is no standard error.
        yield
        return
    read, write = os.pipe()
    os.dup2(write, 2)
    os.close(write)
    threading.Thread(target=_forward, args=(read, terminal), name="headgate-jvm-warnings", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(terminal, 2)


def _forward(read: int, terminal: int) -> None:
    """Forwards the input line by line, without the warnings, until all writers have ended."""
    with os.fdopen(read, "rb", buffering=0) as source:
        rest = b""
        while part := source.read(1 << 16):
            *lines, rest = (rest + part).split(b"\n")
            kept = b"".join(line + b"\n" for line in lines if not line.startswith(_MEANINGLESS))
            # Text without a line end, such as a prompt, must not wait for one.
            if rest and not any(warning.startswith(rest[: len(warning)]) for warning in _MEANINGLESS):
                kept, rest = kept + rest, b""
            if kept:
                os.write(terminal, kept)

"""Reads the newest malformed rows from the folder that they are written to."""

from __future__ import annotations

import json
from typing import Any

from headgate.spark.storage import open_storage

_BYTES = 1 << 16
"""Most bytes that are read from the end of a file."""

_TEXT = 2000
"""Most characters of a row that are shown."""


def newest_dead_letters(folder: str, limit: int) -> list[dict[str, Any]]:
    """The newest malformed rows: stream, reason and text, newest first; none if the folder does not exist."""
    try:
        storage = open_storage(folder)
        names = storage.names()
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    for name in reversed(names):
        if len(found) >= limit:
            break
        try:
            data = storage.read(name)[-_BYTES:]
        except OSError:
            continue
        for line in reversed(data.decode("utf-8", "replace").splitlines()):
            letter = _letter(line)
            if letter is not None and len(found) < limit:
                found.append(letter)
    return found


def _letter(line: str) -> dict[str, Any] | None:
    """Parses one line; None if it is truncated or not a dead letter."""
    try:
        values = json.loads(line)
        return {key: str(values[key])[:_TEXT] for key in ("stream", "reason", "row")}
    except (ValueError, KeyError, TypeError):
        return None

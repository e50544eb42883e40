"""Sends rows directly into an engine: declares the streams and manages the folders that the engine reads."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headgate.feeder.feed import Feed
from headgate.feeder.folder import FolderTarget

if TYPE_CHECKING:
    from headgate.engine import Engine

_SHARED_MEMORY = "/dev/shm"


class EngineTarget:
    """Declares the streams of the feeds in an engine, and sends their rows to it.

    The rows pass through files in a temporary folder, in memory if the system has a folder for that. Spark removes a
    file once the engine has committed the rows. `remove` removes the folder; call it when the engine has stopped.
    `delay` is that of the watermarks.
    """

    def __init__(self, engine: Engine, feeds: Sequence[Feed], delay: str = "1 SECOND") -> None:
        place = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        self._folder = Path(tempfile.mkdtemp(prefix="headgate-feed-", dir=place))
        self._files = FolderTarget(self._folder)
        for feed in feeds:
            path = self._folder / feed.stream
            path.mkdir()
            engine.execute(feed.declaration("parquet", {"path": str(path), "cleanSource": "delete"}, delay))

    def send(self, stream: str, rows: pa.Table) -> None:
        self._files.send(stream, rows)

    def close(self) -> None:
        self._files.close()

    def remove(self) -> None:
        """Removes the folder; the engine must not read it any more."""
        shutil.rmtree(self._folder, ignore_errors=True)

"""The store of batches outside memory: Arrow IPC files, for spilling and for snapshots."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote
from weakref import finalize

import pyarrow as pa


class Store(Protocol):
    """Keeps parts: record batches of one schema under a key that is never used for other rows.

    Called by any thread; calls for different keys may overlap.
    """

    def write(self, key: str, batches: Sequence[pa.RecordBatch]) -> None:
        """Writes the batches; they can be read when it returns. Raises OSError if it cannot write."""
        ...

    def read(self, key: str, index: int) -> pa.RecordBatch:
        """One of the batches of a part."""
        ...

    def discard(self, key: str) -> None:
        """The network no longer needs the part. A store whose snapshots still name it keeps it."""
        ...


class Folder:
    """A store in a folder of the local file system: one Arrow IPC file a part.

    Without a path it creates a temporary folder, which is deleted with the store. With `keep` nothing is removed, so
    that every snapshot can be restored.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, keep: bool = False) -> None:
        self._keep = keep
        if path is None:
            temporary = tempfile.TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True)
            finalize(self, temporary.cleanup)
            self.path = Path(temporary.name)
        else:
            self.path = Path(path)
            self.path.mkdir(parents=True, exist_ok=True)

    def write(self, key: str, batches: Sequence[pa.RecordBatch]) -> None:
        target = self._file(key)
        unfinished = target.with_suffix(".part")
        try:
            with pa.OSFile(str(unfinished), "wb") as file, pa.ipc.new_file(file, batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise OSError(
                f"cannot write waiting rows to {target}: {error}; free space there, or give another folder to spill to"
            ) from error
        # Renamed last, so that a file under its final name is always complete.
        unfinished.rename(target)

    def read(self, key: str, index: int) -> pa.RecordBatch:
        target = self._file(key)
        try:
            with pa.OSFile(str(target), "rb") as file:
                return pa.ipc.open_file(file).get_batch(index)
        except (OSError, pa.ArrowInvalid) as error:
            raise OSError(f"cannot read waiting rows back from {target}: {error}; were its files removed?") from error

    def discard(self, key: str) -> None:
        if not self._keep:
            self._file(key).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self.path / f"{quote(key, safe='')}.arrow"

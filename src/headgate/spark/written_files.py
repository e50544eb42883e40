"""Moves files that hosts have written under hidden names to their final names: the second step of writing a folder."""

from __future__ import annotations

import os

import pyarrow as pa
from pyarrow import fs

from headgate.spark.messages import DEAD, WrittenFile
from headgate.spark.results import SinkError
from headgate.spark.storage import is_object_store


def open_folder(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a folder, and its path there."""
    if "://" in path:
        files, root = fs.FileSystem.from_uri(path)
        return files, root.rstrip("/")
    return fs.LocalFileSystem(), os.path.abspath(path)


class WrittenFiles:
    """Publishes files by their commit alone: the sink need not be open, and the query may have been dropped.

    Moving is idempotent: a file whose hidden name is gone has been moved. Where the store has no rename, the file is
    copied inside the store and the hidden one deleted; a copy appears whole, so that repeating it does no harm.
    `files` replaces the file system that a folder names. Used by one thread.
    """

    def __init__(self, files: fs.FileSystem | None = None) -> None:
        self._given = files
        self._opened: dict[str, tuple[fs.FileSystem, str]] = {}

    def publish(self, file: WrittenFile, again: bool = False) -> None:
        """Moves a file into place.

        With `again` it may have been moved before the last crash, and removed since by a reader of the folder.
        """
        whose = DEAD if file.query == DEAD else f"query {file.query}"
        try:
            if file.folder not in self._opened:
                files, root = open_folder(file.folder)
                self._opened[file.folder] = (self._given or files, root)
            files, root = self._opened[file.folder]
            self._move(files, f"{root}/{file.hidden}", f"{root}/{file.final}", again)
        except (OSError, pa.ArrowException) as error:
            raise SinkError(f"{whose}: {file.folder}/{file.final} cannot be written: {error}") from error

    def lines(self, file: WrittenFile) -> list[str]:
        """The lines of a text file that was published; none if it has been removed."""
        files, root = self._opened[file.folder]
        try:
            with files.open_input_stream(f"{root}/{file.final}") as opened:
                return list(opened.read().decode().splitlines())
        except OSError:
            return []

    def _move(self, files: fs.FileSystem, hidden: str, final: str, again: bool) -> None:
        try:
            _rename(files, hidden, final)
        except OSError:
            if files.get_file_info(hidden).type != fs.FileType.NotFound:
                # Most likely the first file of a partition.
                files.create_dir(final.rpartition("/")[0], recursive=True)
                _rename(files, hidden, final)
            elif not again and files.get_file_info(final).type == fs.FileType.NotFound:
                raise


def _rename(files: fs.FileSystem, hidden: str, final: str) -> None:
    if is_object_store(files):
        files.copy_file(hidden, final)
        files.delete_file(hidden)
    else:
        files.move(hidden, final)

"""Sends rows as files, one folder per stream, for file sources to read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from headgate.feeder.feeder import FeedError
from headgate.feeder.json_text import json_texts

Write = Callable[[pa.Table, Path], None]


def _parquet(table: pa.Table, path: Path) -> None:
    # Dictionaries and statistics cost more than they save in files that are read once.
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)


def _csv(table: pa.Table, path: Path) -> None:
    pc_csv.write_csv(table, path, pc_csv.WriteOptions(include_header=False))


def _json(table: pa.Table, path: Path) -> None:
    lines = json_texts(table, end="\n")
    with path.open("wb") as file:
        for chunk in lines.chunks:
            # The texts of an Arrow array follow one another in one buffer.
            offsets, data = chunk.buffers()[1:]
            low, high = (memoryview(offsets).cast("i")[i] for i in (chunk.offset, chunk.offset + len(chunk)))
            file.write(memoryview(data)[low:high])


FORMATS: dict[str, Write] = {"parquet": _parquet, "json": _json, "csv": _csv}
"""The file formats; the name is also the ending, and the source that reads them."""


class FolderTarget:
    """Writes `<folder>/<stream>/<number>.<format>`: a file for each batch, which appears atomically.

    Numbers continue after the existing files, so that nothing is replaced.
    """

    def __init__(self, folder: str | os.PathLike[str], format: str = "parquet") -> None:
        if format not in FORMATS:
            raise FeedError(f"there is no file format {format}; there are: {', '.join(FORMATS)}")
        self._folder = Path(folder)
        self._format = format
        self._numbers: dict[str, int] = {}

    def send(self, stream: str, rows: pa.Table) -> None:
        folder = self._folder / stream
        try:
            number = self._next(stream, folder)
            write_file(folder, number, rows, self._format)
        except OSError as error:
            raise FeedError(
                f"{folder}: {(error.strerror or str(error)).lower()}; rows cannot be written there"
            ) from error
        self._numbers[stream] = number + 1

    def close(self) -> None:
        """Nothing to do: every file is complete."""

    def _next(self, stream: str, folder: Path) -> int:
        if stream in self._numbers:
            return self._numbers[stream]
        folder.mkdir(parents=True, exist_ok=True)
        there = [int(path.stem) for path in folder.glob(f"*.{self._format}") if path.stem.isdigit()]
        return max(there, default=-1) + 1


def write_file(folder: str | os.PathLike[str], number: int, table: pa.Table, format: str = "parquet") -> None:
    """Writes a file that appears atomically: it is written under a hidden name and renamed."""
    hidden = Path(folder) / f".{number:09d}.{format}"
    FORMATS[format](table, hidden)
    hidden.rename(Path(folder) / f"{number:09d}.{format}")

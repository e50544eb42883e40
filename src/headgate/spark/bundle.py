"""Parts of a checkpoint that are written as one file."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pyarrow as pa

from headgate.spark.messages import Place


class Bundle:
    """Collects parts for one file. Nothing is visible before `close`, which calls `write` with the file's name and
    content."""

    def __init__(self, file: str, write: Callable[[str, bytes], None]) -> None:
        self._file = file
        self._write = write
        self._chunks: list[bytes] = []
        self._size = 0
        self.places: list[tuple[str, Place]] = []

    def add(self, key: str, table: pa.Table) -> bytes:
        """Adds a part and returns its bytes (an Arrow IPC stream)."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data: bytes = sink.getvalue().to_pybytes()
        self.add_bytes(key, data)
        return data

    def add_bytes(self, key: str, data: bytes) -> Place:
        """Adds a part that is bytes already."""
        place = Place(self._file, self._size, len(data), zlib.crc32(data))
        self.places.append((key, place))
        self._chunks.append(data)
        self._size += len(data)
        return place

    def close(self) -> None:
        """Writes the file, unless there are no parts."""
        if self._chunks:
            self._write(self._file, b"".join(self._chunks))

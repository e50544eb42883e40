"""ORC files."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

import pyarrow as pa

from headgate.connectors.files import (
    NOT_READ,
    NOT_STREAMED,
    NOT_WRITTEN,
    SINK_OPTIONS,
    STREAM_OPTIONS,
    TABLE_OPTIONS,
    FileSource,
    FileTable,
    FolderSink,
)
from headgate.graph.options import OptionDeclaration, OptionSet
from headgate.graph.types import Field

_CODECS = {"none": "uncompressed", "uncompressed": "uncompressed"} | {c: c for c in ("snappy", "zlib", "zstd", "lz4")}


class OrcSource(FileSource):
    """ORC files that appear in a folder."""

    name = "orc"
    about = "ORC files that appear in a folder"
    options = OptionSet(STREAM_OPTIONS, refused=NOT_STREAMED)
    example = "path '{folder}'"


class OrcTable(FileTable):
    """A static table in ORC files."""

    name = "orc"
    about = "ORC files"
    options = OptionSet(TABLE_OPTIONS, refused=NOT_READ)
    example = "path '{folder}'"


class OrcSink(FolderSink):
    """A folder of ORC files."""

    name = "orc"
    about = "a folder of ORC files"
    options = OptionSet(
        (
            *SINK_OPTIONS,
            OptionDeclaration("compression", "compression of the files", choices=tuple(_CODECS), default="snappy"),
        ),
        refused={"mode": NOT_WRITTEN["mode"]},
    )
    example = "path '{folder}', partitionBy 'k', maxRecordsPerFile '2', compression 'zlib'"

    def column_problem(self, column: Field) -> str | None:
        if pa.types.is_duration(column.type):
            return f"ORC has no type for intervals; write CAST({column.name} AS STRING) AS {column.name}"
        return None

    def encoder(self, options: Mapping[str, str]) -> Callable[[pa.Table], bytes]:
        import pyarrow.orc

        codec = _CODECS[options.get("compression", "snappy")]

        def encode(table: pa.Table) -> bytes:
            sink = io.BytesIO()
            pyarrow.orc.write_table(table, sink, compression=codec)
            return sink.getvalue()

        return encode

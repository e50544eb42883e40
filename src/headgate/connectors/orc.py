"""ORC files."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

import pyarrow as pa

from headgate.connectors import files, folder
from headgate.graph.options import OptionDeclaration, OptionSet
from headgate.graph.types import Field

_CODECS = {"none": "uncompressed", "uncompressed": "uncompressed"} | {c: c for c in ("snappy", "zlib", "zstd", "lz4")}


class OrcSource(files.FileSource):
    """ORC files that appear in a folder."""

    name = "orc"
    about = "ORC files that appear in a folder"
    options = OptionSet(files.STREAM_OPTIONS, refused=files.NOT_STREAMED)
    limit = files.COLUMNAR_LIMIT
    example = "path '{folder}'"


class OrcTable(files.FileTable):
    """A static table in ORC files."""

    name = "orc"
    about = "ORC files"
    options = OptionSet(files.TABLE_OPTIONS, refused=files.NOT_READ)
    example = "path '{folder}'"


class OrcSink(folder.FolderSink):
    """A folder of ORC files."""

    name = "orc"
    about = "a folder of ORC files"
    options = OptionSet(
        (
            *folder.SINK_OPTIONS,
            OptionDeclaration("compression", "compression of the files", choices=tuple(_CODECS), default="snappy"),
        ),
        refused={"mode": folder.NOT_WRITTEN["mode"]},
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

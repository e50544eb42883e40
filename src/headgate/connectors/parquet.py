"""Parquet files."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

import pyarrow as pa

from headgate.connectors import files, folder
from headgate.graph.options import OptionDeclaration, OptionSet

_REBASE = ("EXCEPTION", "CORRECTED", "LEGACY")
_READ = (
    OptionDeclaration("datetimeRebaseMode", "calendar of old dates and timestamps", choices=_REBASE),
    OptionDeclaration("int96RebaseMode", "calendar of old INT96 timestamps", choices=_REBASE),
)
_WRITTEN = {
    "datetimeRebaseMode": "files are written in the proleptic Gregorian calendar",
    "int96RebaseMode": "timestamps are written as INT64",
}
# Spark's names, and Arrow's where they differ.
_CODECS = {"none": "none", "uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "lz4_raw": "lz4"}


class ParquetSource(files.FileSource):
    """Parquet files that appear in a folder."""

    name = "parquet"
    about = "Parquet files that appear in a folder"
    options = OptionSet((*files.STREAM_OPTIONS, *_READ), refused=files.NOT_STREAMED)
    limit = files.COLUMNAR_LIMIT
    example = "path '{folder}'"


class ParquetTable(files.FileTable):
    """A static table in Parquet files."""

    name = "parquet"
    about = "Parquet files"
    options = OptionSet((*files.TABLE_OPTIONS, *_READ), refused=files.NOT_READ)
    example = "path '{folder}'"


class ParquetSink(folder.FolderSink):
    """A folder of Parquet files."""

    name = "parquet"
    about = "a folder of Parquet files"
    options = OptionSet(
        (
            *folder.SINK_OPTIONS,
            OptionDeclaration("compression", "compression of the files", choices=tuple(_CODECS), default="snappy"),
        ),
        refused={"mode": folder.NOT_WRITTEN["mode"], **_WRITTEN},
    )
    example = "path '{folder}', partitionBy 'k', maxRecordsPerFile '2', compression 'zstd'"

    def encoder(self, options: Mapping[str, str]) -> Callable[[pa.Table], bytes]:
        import pyarrow.parquet

        codec = _CODECS[options.get("compression", "snappy")]

        def encode(table: pa.Table) -> bytes:
            sink = io.BytesIO()
            pyarrow.parquet.write_table(table, sink, compression=codec)
            return sink.getvalue()

        return encode

"""Text files: one line per row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from headgate.connectors import files, folder
from headgate.connectors.compression import COMPRESSION, compressor, ending_of
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.queries import Stream
from headgate.graph.types import STRING, Field, Schema, sql_name

_READ = (
    OptionDeclaration("wholetext", "a file is one row", "boolean", default="false"),
    OptionDeclaration("lineSep", "end of a line"),
    OptionDeclaration("encoding", "character set", default="UTF-8"),
)


class TextSource(files.FileSource):
    """Lines of text files that appear in a folder."""

    name = "text"
    about = "lines of text files that appear in a folder: `value STRING`"
    options = OptionSet((*files.STREAM_OPTIONS, *_READ), refused=files.NOT_STREAMED)
    example = "path '{folder}'"

    def schema(self, stream: Stream) -> Schema | None:
        del stream
        return None


class TextTable(files.FileTable):
    """Lines of text files."""

    name = "text"
    about = "lines of text files: `value STRING`"
    options = OptionSet((*files.TABLE_OPTIONS, *_READ), refused=files.NOT_READ)
    example = "path '{folder}'"
    gives_schema = False


class TextSink(folder.FolderSink):
    """A folder of text files, one line per row."""

    name = "text"
    about = "a folder of text files, for a query with one STRING column (beside those of `partitionBy`)"
    options = OptionSet(
        (*folder.SINK_OPTIONS, OptionDeclaration("lineSep", "end of a line", default="\\n"), COMPRESSION),
        refused={name: folder.NOT_WRITTEN[name] for name in ("mode", "encoding")},
    )
    example = "path '{folder}', partitionBy 'k', maxRecordsPerFile '2', compression 'gzip'"

    def ending(self, options: Mapping[str, str]) -> str:
        return f"txt{ending_of(options)}"

    def file_problem(self, columns: Sequence[Field]) -> OptionProblem | None:
        if [column.type for column in columns] == [STRING]:
            return None
        has = ", ".join(f"{column.name} {sql_name(column.type)}" for column in columns)
        return OptionProblem(None, f"a text file has one STRING column; the query has {has}: use concat_ws, or csv")

    def encoder(self, options: Mapping[str, str]) -> Callable[[pa.Table], bytes]:
        end = options.get("lineSep", "\n")
        compress = compressor(options)

        def encode(table: pa.Table) -> bytes:
            return compress("".join(f"{line or ''}{end}" for line in table.column(0).to_pylist()).encode())

        return encode

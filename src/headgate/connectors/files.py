"""Files that are read as streams and static tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from headgate.connectors.contract import Guarantee
from headgate.connectors.source_folder import all_of, default_is_local, folder_of
from headgate.connectors.spark_format import SparkFormatSource, SparkFormatTable, check_columns
from headgate.connectors.value_format import RAW
from headgate.graph.options import OptionDeclaration, OptionProblem
from headgate.graph.queries import Stream
from headgate.graph.types import STRING, Field, Schema
from headgate.spark.source_rows import SourceRows

_ANY = (
    OptionDeclaration("pathGlobFilter", "pattern for the names of files"),
    OptionDeclaration("recursiveFileLookup", "reads folders below", "boolean", default="false"),
    OptionDeclaration("ignoreCorruptFiles", "skips files that cannot be read", "boolean", default="false"),
    OptionDeclaration("ignoreMissingFiles", "skips files that are gone", "boolean", default="false"),
)
STREAM_OPTIONS = (
    OptionDeclaration("path", "folder, or pattern of folders", needed=True),
    OptionDeclaration("maxFilesPerTrigger", "most files a micro-batch", "integer", default="1000", least=1),
    OptionDeclaration("maxBytesPerTrigger", "most bytes a micro-batch", "integer", least=1),
    OptionDeclaration("latestFirst", "newest files first", "boolean", default="false"),
    OptionDeclaration("maxFileAge", "files older than the newest by this are ignored", "time", default="7d"),
    OptionDeclaration("maxCachedFiles", "listed files that are kept for later micro-batches", "integer"),
    OptionDeclaration("fileNameOnly", "a file is known by its name without the folder", "boolean", default="false"),
    OptionDeclaration(
        "cleanSource", "what happens to files that are read", choices=("off", "delete", "archive"), default="off"
    ),
    OptionDeclaration("sourceArchiveDir", "folder for files that are read, with cleanSource archive"),
    *_ANY,
)
TABLE_OPTIONS = (
    OptionDeclaration("path", "file or folder", needed=True),
    OptionDeclaration("modifiedBefore", "reads files modified before, as `2024-01-31T12:00:00`"),
    OptionDeclaration("modifiedAfter", "reads files modified after, as `2024-01-31T12:00:00`"),
    *_ANY,
)
PARSER_OPTIONS = (
    OptionDeclaration(
        "mode",
        "malformed rows: dead letters of a stream and nulls in a table (PERMISSIVE), dropped, or an error",
        choices=("PERMISSIVE", "DROPMALFORMED", "FAILFAST"),
        default="PERMISSIVE",
    ),
    OptionDeclaration("dateFormat", "pattern of dates"),
    OptionDeclaration("timestampFormat", "pattern of TIMESTAMP columns"),
    OptionDeclaration("timestampNTZFormat", "pattern of TIMESTAMP_NTZ columns"),
    OptionDeclaration("timeZone", "zone of timestamps without one"),
    OptionDeclaration("locale", "language of the patterns, as `en-US`"),
    OptionDeclaration("encoding", "character set", default="UTF-8"),
    OptionDeclaration("lineSep", "end of a line"),
    OptionDeclaration("multiLine", "a row may span lines", "boolean", default="false"),
)
CORRUPT_COLUMN = OptionDeclaration(
    "columnNameOfCorruptRecord", "declared STRING column for the text of malformed rows", default="_corrupt_record"
)
_NO_INFERENCE = "the columns are declared, none is inferred"
NOT_READ = {
    "compression": "Spark recognizes compressed files by the ending of their names",
    "inferSchema": _NO_INFERENCE,
    "mergeSchema": _NO_INFERENCE,
    "samplingRatio": _NO_INFERENCE,
    "primitivesAsString": _NO_INFERENCE,
    "prefersDecimal": _NO_INFERENCE,
    "dropFieldIfAllNull": _NO_INFERENCE,
}
NOT_STREAMED = {
    **NOT_READ,
    "modifiedBefore": "Spark has it for tables only",
    "modifiedAfter": "Spark has it for tables only; give maxFileAge",
    "columnNameOfCorruptRecord": "malformed rows of a stream go to the dead letters",
}


COLUMNAR_LIMIT = MappingProxyType({"maxBytesPerTrigger": str(2 << 20)})
"""The limit for columnar files in a lower class: a compressed byte holds more rows than a byte of text."""


class FileSource(SparkFormatSource):
    """Files that appear in a folder. `parsed`: a row may be malformed, and Spark then gives its text."""

    together = "path"
    limit = MappingProxyType({"maxBytesPerTrigger": str(8 << 20)})
    parsed = False
    guarantee = Guarantee(
        True,
        "the commit of an epoch names the files that it has read; a file must not change once it is there",
        "tests/crash/test_formats.py::test_rows_of_every_format_arrive_once",
    )

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        del schema
        if options.get("cleanSource") == "archive" and "sourceArchiveDir" not in options:
            return OptionProblem("cleanSource", "cleanSource archive needs the option sourceArchiveDir")
        if "sourceArchiveDir" in options and options.get("cleanSource") != "archive":
            return OptionProblem("sourceArchiveDir", "sourceArchiveDir needs cleanSource 'archive'")
        if "maxFilesPerTrigger" in options and "maxBytesPerTrigger" in options:
            return OptionProblem("maxBytesPerTrigger", "give either maxFilesPerTrigger or maxBytesPerTrigger")
        return None

    def group_key(self, stream: Stream) -> object:
        key = super().group_key(stream)
        place = folder_of(stream.options["path"])
        # Spark refuses a file in place of a folder unless it is one of several.
        return None if key is None or place.is_file else (place.system, key)

    def overlap(self, one: Stream, other: Stream) -> bool:
        # One in the other: partitions, or recursiveFileLookup, make rows of both of the inner folder's.
        first, second = (folder_of(stream.options["path"]).uri + "/" for stream in (one, other))
        return first.startswith(second) or second.startswith(first)

    def combine(self, spark: Any, values: Sequence[str]) -> tuple[str, list[str]]:
        folders = [folder_of(path) for path in values]
        local = default_is_local(spark)
        return all_of([folder.given for folder in folders]), [folder.test(local) for folder in folders]

    def open(self, spark: Any, streams: Sequence[Stream]) -> SourceRows:
        from headgate.spark.types import spark_schema

        group = self.group(spark, streams)
        first = streams[0]
        options, schema = dict(group.options), self.schema(first)
        if self.parsed:
            options |= {"columnNameOfCorruptRecord": RAW}
        frame = self.load(spark, first, options, None if schema is None else spark_schema(schema))
        check_columns(first, self.name, frame)
        tagged = frame.selectExpr("*", *group.tag) if group.tag else frame
        folders = [folder_of(stream.options["path"]).local for stream in streams]
        watched = None if None in folders else tuple(folder for folder in folders if folder is not None)
        return SourceRows(tagged, f"`{RAW}`" if self.parsed else None, group.member, watched, self.parsed)

    def schema(self, stream: Stream) -> Schema | None:
        """The columns that the reader is given."""
        return Schema((*stream.schema.fields, Field(RAW, STRING))) if self.parsed else stream.schema


class FileTable(SparkFormatTable):
    """Files that are read once."""

    gives_schema = True

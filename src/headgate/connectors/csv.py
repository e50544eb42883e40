"""CSV files, in Spark's dialect: null is an empty field, an empty text a pair of quotes, a backslash escapes quotes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headgate.connectors import files, folder
from headgate.connectors.compression import COMPRESSION, compressor, ending_of
from headgate.graph.options import OptionDeclaration, OptionProblem, OptionSet
from headgate.graph.types import STRING, Field, Schema, is_time, sql_name

_SEPARATOR = (
    OptionDeclaration("sep", "text between two values", default=","),
    OptionDeclaration("delimiter", "the same as `sep`"),
)
_READ = (
    *files.PARSER_OPTIONS,
    *_SEPARATOR,
    OptionDeclaration("header", "the first line of a file names the columns", "boolean", default="false"),
    OptionDeclaration("quote", "character around a value", "character", default='"'),
    OptionDeclaration("escape", "character before a quote inside quotes", "character", default="\\"),
    OptionDeclaration("charToEscapeQuoteEscaping", "character before an escape character", "character"),
    OptionDeclaration("comment", "character that begins a line to skip", "character"),
    OptionDeclaration("nullValue", "text that stands for null", default=""),
    OptionDeclaration("emptyValue", "text that stands for an empty text", default=""),
    OptionDeclaration("nanValue", "text that stands for not a number", default="NaN"),
    OptionDeclaration("positiveInf", "text that stands for infinity", default="Inf"),
    OptionDeclaration("negativeInf", "text that stands for negative infinity", default="-Inf"),
    OptionDeclaration("ignoreLeadingWhiteSpace", "drops spaces before values", "boolean", default="false"),
    OptionDeclaration("ignoreTrailingWhiteSpace", "drops spaces behind values", "boolean", default="false"),
    OptionDeclaration("enforceSchema", "columns by position, whatever the header says", "boolean", default="true"),
    OptionDeclaration("maxColumns", "most columns of a line", "integer", default="20480", least=1),
    OptionDeclaration(
        "maxCharsPerColumn", "most characters of a value; -1: no limit", "integer", default="-1", least=-1
    ),
    OptionDeclaration(
        "unescapedQuoteHandling",
        "what a quote inside a value means",
        choices=("STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "STOP_AT_DELIMITER", "SKIP_VALUE", "RAISE_ERROR"),
        default="STOP_AT_DELIMITER",
    ),
)
_ESCAPED = {"escapeQuotes": "values with quotes are always quoted, and their quotes escaped"}
_WRITE_ONLY = {"quoteAll": "it is an option of the sink csv", **_ESCAPED}


def _both_separators(options: Mapping[str, str]) -> OptionProblem | None:
    if "sep" in options and "delimiter" in options:
        return OptionProblem("delimiter", "sep and delimiter are the same option; give one")
    return None


class CsvSource(files.FileSource):
    """CSV files that appear in a folder."""

    name = "csv"
    about = "CSV files that appear in a folder"
    options = OptionSet((*files.STREAM_OPTIONS, *_READ), refused={**files.NOT_STREAMED, **_WRITE_ONLY})
    example = "path '{folder}'"
    parsed = True

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        return _both_separators(options) or super().problem(options, schema)


class CsvTable(files.FileTable):
    """A static table in CSV files."""

    name = "csv"
    about = "CSV files"
    options = OptionSet((*files.TABLE_OPTIONS, *_READ, files.CORRUPT_COLUMN), refused={**files.NOT_READ, **_WRITE_ONLY})
    example = "path '{folder}'"

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        return _both_separators(options) or super().problem(options, schema)


class CsvSink(folder.FolderSink):
    """A folder of CSV files."""

    name = "csv"
    about = "a folder of CSV files"
    options = OptionSet(
        (
            *folder.SINK_OPTIONS,
            *_SEPARATOR,
            OptionDeclaration("header", "writes the names of the columns first", "boolean", default="false"),
            OptionDeclaration("quote", "character around a value", "character", default='"', least=1),
            OptionDeclaration("escape", "character before a quote inside quotes", "character", default="\\", least=1),
            OptionDeclaration("quoteAll", "quotes around every value that is not null", "boolean", default="false"),
            OptionDeclaration("nullValue", "text for null", default=""),
            OptionDeclaration("emptyValue", "text for an empty text", default='""'),
            OptionDeclaration("lineSep", "end of a line", default="\\n"),
            COMPRESSION,
        ),
        refused={**folder.NOT_WRITTEN, **_ESCAPED},
    )
    example = "path '{folder}', partitionBy 'k', maxRecordsPerFile '2', compression 'gzip'"

    def ending(self, options: Mapping[str, str]) -> str:
        return f"csv{ending_of(options)}"

    def column_problem(self, column: Field) -> str | None:
        if pa.types.is_nested(column.type):
            return f"CSV has no place for {column.name} {sql_name(column.type)}; select its members, or write to_json"
        if pa.types.is_binary(column.type):
            return f"CSV has no place for {column.name} BINARY; write base64({column.name}) AS {column.name}"
        if pa.types.is_duration(column.type):
            return f"CSV has no place for intervals; write CAST({column.name} AS STRING) AS {column.name}"
        return None

    def problem(self, options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
        return _both_separators(options) or super().problem(options, schema)

    def encoder(self, options: Mapping[str, str]) -> Callable[[pa.Table], bytes]:
        compress = compressor(options)
        encode = _Lines(options)
        return lambda table: compress(encode(table))


def csv_lines(table: pa.Table) -> list[bytes]:
    """The rows as lines in the default dialect, without their ends; a value may contain line feeds."""
    return [line.encode() for line in _Lines({}).lines(table)]


class _Lines:
    """Encodes a table as lines of CSV with Arrow's text kernels."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._separator = options.get("sep", options.get("delimiter", ","))
        self._quote = options.get("quote", '"')
        self._escape = options.get("escape", "\\")
        self._null = options.get("nullValue", "")
        self._empty = options.get("emptyValue", self._quote * 2)
        self._end = options.get("lineSep", "\n")
        self._header = options.get("header") == "true"
        self._quote_all = options.get("quoteAll") == "true"

    def __call__(self, table: pa.Table) -> bytes:
        texts = self.lines(table)
        if self._header:
            names = self._column(pa.array(table.column_names, STRING)).to_pylist()
            texts.insert(0, self._separator.join(names))
        return "".join(f"{text}{self._end}" for text in texts).encode()

    def lines(self, table: pa.Table) -> list[str]:
        """A line for each row, without its end."""
        columns = [self._column(column.combine_chunks()) for column in table.columns]
        lines = pc.binary_join_element_wise(*columns, self._separator)
        # Readers skip a line without any character.
        lines = pc.if_else(pc.equal(lines, ""), self._quote * 2, lines)
        return list(lines.to_pylist())

    def _column(self, column: pa.Array) -> pa.Array:
        texts = _text(column)
        values = pc.if_else(pc.equal(texts, ""), self._empty, self._quoted(texts))
        return pc.fill_null(values, self._null)

    def _quoted(self, texts: pa.Array) -> pa.Array:
        inside = texts
        if self._escape != self._quote:
            inside = pc.replace_substring(inside, self._escape, self._escape * 2)
        inside = pc.replace_substring(inside, self._quote, self._escape + self._quote)
        around = pc.binary_join_element_wise(self._quote, inside, self._quote, "")
        if self._quote_all:
            return around
        signs = {self._separator, self._quote, "\n", "\r", self._end}
        needed = pc.equal(texts, self._null)
        for sign in sorted(signs):
            needed = pc.or_(needed, pc.match_substring(texts, sign))
        return pc.if_else(needed, around, texts)


def _text(column: pa.Array) -> pa.Array:
    """Values as Spark writes them in CSV."""
    if is_time(column.type):
        zone = "Z" if column.type.tz else ""
        texts = pc.strftime(column, format=f"%Y-%m-%dT%H:%M:%S{zone}")
        # Milliseconds if these are exact, as Spark writes them.
        return pc.replace_substring_regex(texts, r"(\.\d{3})000(Z?)$", r"\1\2")
    texts = column.cast(pa.string())
    if pa.types.is_floating(column.type):
        for arrow, spark in (("nan", "NaN"), ("inf", "Inf"), ("-inf", "-Inf")):
            texts = pc.if_else(pc.equal(texts, arrow), spark, texts)
    return texts

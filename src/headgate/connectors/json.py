"""JSON files: one object per line."""

from __future__ import annotations

import base64
import json
import math
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from headgate.connectors import files, folder
from headgate.connectors.compression import COMPRESSION, compressor, ending_of
from headgate.graph.options import OptionDeclaration, OptionSet
from headgate.graph.types import Field

_READ = (
    *files.PARSER_OPTIONS,
    OptionDeclaration("allowComments", "comments as in Java", "boolean", default="false"),
    OptionDeclaration("allowUnquotedFieldNames", "names without quotes", "boolean", default="false"),
    OptionDeclaration("allowSingleQuotes", "single quotes", "boolean", default="true"),
    OptionDeclaration("allowNumericLeadingZeros", "numbers such as 007", "boolean", default="false"),
    OptionDeclaration("allowBackslashEscapingAnyCharacter", "`\\x` for any x", "boolean", default="false"),
    OptionDeclaration("allowUnquotedControlChars", "control characters in texts", "boolean", default="false"),
    OptionDeclaration("allowNonNumericNumbers", "NaN and Infinity without quotes", "boolean", default="true"),
)
_READ_ONLY = {"ignoreNullFields": "it is an option of the sink json"}
_DIGITS = r"-?[0-9.]+(?:E[+-]?[0-9]+)?"

Convert = Callable[[Any], Any]


class JsonSource(files.FileSource):
    """JSON files that appear in a folder."""

    name = "json"
    about = "JSON files that appear in a folder, an object a line"
    options = OptionSet((*files.STREAM_OPTIONS, *_READ), refused={**files.NOT_STREAMED, **_READ_ONLY})
    example = "path '{folder}'"
    parsed = True


class JsonTable(files.FileTable):
    """A static table in JSON files."""

    name = "json"
    about = "JSON files, an object a line"
    options = OptionSet((*files.TABLE_OPTIONS, *_READ, files.CORRUPT_COLUMN), refused={**files.NOT_READ, **_READ_ONLY})
    example = "path '{folder}'"


class JsonSink(folder.FolderSink):
    """A folder of JSON files, one object per line."""

    name = "json"
    about = "a folder of JSON files, an object a line"
    options = OptionSet(
        (
            *folder.SINK_OPTIONS,
            OptionDeclaration("ignoreNullFields", "leaves out fields that are null", "boolean", default="true"),
            OptionDeclaration("lineSep", "end of a line", default="\\n"),
            COMPRESSION,
        ),
        refused=folder.NOT_WRITTEN,
    )
    example = "path '{folder}', partitionBy 'k', maxRecordsPerFile '2', compression 'gzip'"

    def ending(self, options: Mapping[str, str]) -> str:
        return f"json{ending_of(options)}"

    def column_problem(self, column: Field) -> str | None:
        if _holds(column.type, pa.types.is_duration):
            return f"JSON has no intervals; write CAST({column.name} AS STRING) AS {column.name}"
        return None

    def encoder(self, options: Mapping[str, str]) -> Callable[[pa.Table], bytes]:
        compress = compressor(options)
        lines = json_lines(options.get("ignoreNullFields", "true") == "true", options.get("lineSep", "\n"))
        return lambda table: compress(lines(table))


def json_lines(ignore_nulls: bool = True, end: str = "\n") -> Callable[[pa.Table], bytes]:
    """Encodes a table as JSON, one object per line, as Spark writes it."""
    # The json module cannot write decimals exactly: they become marked texts, and the quotes are removed later.
    mark = uuid.uuid4().hex

    def encode(table: pa.Table) -> bytes:
        names = table.column_names
        converts = [converter(column.type, ignore_nulls, mark) for column in table.columns]
        columns = [
            [None if value is None else convert(value) for value in column.to_pylist()]
            for column, convert in zip(table.columns, converts, strict=True)
        ]
        lines = (
            json.dumps(
                {n: v for n, v in zip(names, row, strict=True) if v is not None or not ignore_nulls},
                ensure_ascii=False,
                separators=(",", ":"),
            )
            for row in zip(*columns, strict=True)
        )
        text = "".join(f"{line}{end}" for line in lines)
        if any(_holds(type_, pa.types.is_decimal) for type_ in table.schema.types):
            text = re.sub(f'"{mark}({_DIGITS})"', r"\1", text)
        return text.encode()

    return encode


def converter(type_: pa.DataType, ignore_nulls: bool, mark: str = "") -> Convert:
    """Turns a value of a type, not null, into what the json module writes as Spark would; decimals become texts that
    begin with `mark`."""
    if pa.types.is_floating(type_):
        return _number
    if pa.types.is_timestamp(type_):
        return lambda v: v.isoformat(timespec="microseconds" if v.microsecond % 1000 else "milliseconds").replace(
            "+00:00", "Z"
        )
    if pa.types.is_date(type_):
        return lambda value: value.isoformat()
    if pa.types.is_decimal(type_):
        return lambda value: f"{mark}{value}"
    if pa.types.is_binary(type_):
        return lambda value: base64.b64encode(value).decode()
    if pa.types.is_struct(type_):
        parts = {part.name: converter(part.type, ignore_nulls, mark) for part in type_}
        return lambda value: {
            name: None if value[name] is None else convert(value[name])
            for name, convert in parts.items()
            if value[name] is not None or not ignore_nulls
        }
    if pa.types.is_map(type_):
        inside = converter(type_.item_type, ignore_nulls, mark)
        return lambda value: {_key(k): None if v is None else inside(v) for k, v in value}
    if pa.types.is_list(type_):
        each = converter(type_.value_type, ignore_nulls, mark)
        return lambda value: [None if part is None else each(part) for part in value]
    return lambda value: value


def _number(value: float) -> Any:
    """JSON has no NaN or infinity: Spark writes them as texts."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _holds(type_: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type is or contains one that passes a test."""
    if pa.types.is_map(type_):
        return _holds(type_.key_type, test) or _holds(type_.item_type, test)
    if pa.types.is_nested(type_):
        return any(_holds(type_.field(i).type, test) for i in range(type_.num_fields))
    return test(type_)

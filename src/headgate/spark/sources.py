"""From a declared stream to a streaming DataFrame with its columns, and how a malformed row is recognized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headgate.graph.queries import Stream, Table
from headgate.graph.types import STRING, Field, Schema
from headgate.spark.types import ddl, spark_schema

RAW = "_headgate_raw"
_PARSED_FILES = ("json", "csv")
# Sources that bring bytes or lines, which `value_format` says how to read.
_LINES = {"kafka": "CAST(value AS STRING)", "socket": "value", "text": "value"}


class SourceError(ValueError):
    """A stream cannot be read; the message names the stream and what to write."""


@dataclass(frozen=True)
class Rows:
    """The rows of a stream. `flaw` is Spark SQL that is not null for a malformed row: the raw text of it."""

    frame: Any
    flaw: str | None = None


def open_stream(spark: Any, stream: Stream) -> Rows:
    """A streaming DataFrame with the declared columns."""
    options = dict(stream.options)
    value_format = options.pop("value_format", None)
    reader = spark.readStream.format(stream.source)
    if stream.source in _LINES and value_format is not None:
        lines = reader.options(**options).load().selectExpr(f"{_LINES[stream.source]} AS {RAW}")
        return _parsed(stream, lines, value_format, {})
    if stream.source in _PARSED_FILES:
        whole = Schema((*stream.schema.fields, Field(RAW, STRING)))
        options.setdefault("mode", "PERMISSIVE")
        reader = reader.schema(spark_schema(whole)).option("columnNameOfCorruptRecord", RAW)
        return Rows(reader.options(**options).load(), f"`{RAW}`")
    if stream.source in ("parquet", "orc"):
        reader = reader.schema(spark_schema(stream.schema))
    frame = reader.options(**options).load()
    missing = [name for name in stream.schema.names if name not in frame.columns]
    if missing:
        has = ", ".join(frame.columns)
        raise SourceError(
            f"stream {stream.name}: source {stream.source} gives no column {missing[0]}; it gives {has}"
            + (" (or add value_format 'json' to its OPTIONS)" if stream.source in _LINES else "")
        )
    return Rows(frame)


def open_table(spark: Any, table: Table) -> Any:
    """A static table as a DataFrame with the declared columns."""
    reader = spark.read.format(table.source)
    if table.source in ("parquet", "orc", "json", "csv"):
        reader = reader.schema(spark_schema(table.schema))
    frame = reader.options(**table.options).load()
    return frame.selectExpr(*(f"CAST(`{f.name}` AS {_sql(f)}) AS `{f.name}`" for f in table.schema.fields))


def _parsed(stream: Stream, lines: Any, value_format: str, options: dict[str, str]) -> Rows:
    if value_format not in _PARSED_FILES:
        raise SourceError(f"stream {stream.name}: value_format {value_format} is not known; write 'json' or 'csv'")
    whole = Schema((*stream.schema.fields, Field("_flaw", STRING)))
    given = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_flaw", **options}
    settings = ", ".join(f"'{key}', '{value}'" for key, value in given.items())
    parsed = lines.selectExpr(f"from_{value_format}(`{RAW}`, '{_quoted(ddl(whole))}', map({settings})) AS row")
    return Rows(parsed.selectExpr("row.*"), "`_flaw`")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _sql(column: Field) -> str:
    return ddl(Schema((column,))).partition("` ")[2]

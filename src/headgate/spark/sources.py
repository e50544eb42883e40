"""From a declared stream to a streaming DataFrame with its columns, and how a malformed row is recognized."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from headgate.graph.queries import Stream, Table
from headgate.graph.types import STRING, Field, Schema
from headgate.spark.types import ddl, spark_schema

RAW = "_headgate_raw"
MEMBER = "_headgate_member"
_PARSED_FILES = ("json", "csv")
# Sources that bring bytes or lines, which `value_format` says how to read.
_LINES = {"kafka": "CAST(value AS STRING)", "socket": "value", "text": "value"}


class SourceError(ValueError):
    """A stream cannot be read; the message names the stream and what to write."""


@dataclass(frozen=True)
class Rows:
    """The rows of one stream, or of several that are read as one.

    `flaw` is Spark SQL that is not null for a malformed row: the raw text of it. `member` is Spark SQL for the place in
    the group of the stream that a row belongs to; None where there is only one.
    """

    frame: Any
    flaw: str | None = None
    member: str | None = None


def alike(stream: Stream) -> object:
    """Streams with the same answer can be read as one source; None if this one cannot be read with any other.

    One source for many streams is one listing, one log and one scan a trigger instead of one each: with 27 streams
    that is most of a trigger's time.
    """
    place = _place(stream)
    if place is None or any(sign in stream.options[place] for sign in "*?[]{},"):
        return None
    rest = tuple(sorted((key, value) for key, value in stream.options.items() if key != place))
    return (stream.source, stream.schema.names, stream.schema, rest)


def open_streams(spark: Any, streams: Sequence[Stream]) -> Rows:
    """A streaming DataFrame with the declared columns, of one stream or of several that are `alike`."""
    first = streams[0]
    options = dict(first.options)
    member = None
    tag: list[str] = []
    if len(streams) > 1:
        place = _place(first)
        assert place is not None
        found = [_absolute(stream.options[place]) if place == "path" else stream.options[place] for stream in streams]
        if place == "path":
            options[place] = _all_of(found)
            tests = [f"contains(_metadata.file_path, '{_quoted(_below(path))}')" for path in found]
        else:
            options[place] = ",".join(found)
            tests = [f"topic = '{_quoted(topic)}'" for topic in found]
        cases = " ".join(f"WHEN {test} THEN {number}" for number, test in enumerate(tests))
        tag, member = [f"CASE {cases} END AS {MEMBER}"], f"`{MEMBER}`"
    value_format = options.pop("value_format", None)
    reader = spark.readStream.format(first.source)
    if first.source in _LINES and value_format is not None:
        lines = reader.options(**options).load().selectExpr(f"{_LINES[first.source]} AS {RAW}", *tag)
        return _parsed(first, lines, value_format, member)
    if first.source in _PARSED_FILES:
        whole = Schema((*first.schema.fields, Field(RAW, STRING)))
        options.setdefault("mode", "PERMISSIVE")
        reader = reader.schema(spark_schema(whole)).option("columnNameOfCorruptRecord", RAW)
        return Rows(_tagged(reader.options(**options).load(), tag), f"`{RAW}`", member)
    if first.source in ("parquet", "orc"):
        reader = reader.schema(spark_schema(first.schema))
    frame = reader.options(**options).load()
    missing = [name for name in first.schema.names if name not in frame.columns]
    if missing:
        has = ", ".join(frame.columns)
        raise SourceError(
            f"stream {first.name}: source {first.source} gives no column {missing[0]}; it gives {has}"
            + (" (or add value_format 'json' to its OPTIONS)" if first.source in _LINES else "")
        )
    return Rows(_tagged(frame, tag), None, member)


def open_table(spark: Any, table: Table) -> Any:
    """A static table as a DataFrame with the declared columns."""
    reader = spark.read.format(table.source)
    if table.source in ("parquet", "orc", "json", "csv"):
        reader = reader.schema(spark_schema(table.schema))
    frame = reader.options(**table.options).load()
    return frame.selectExpr(*(f"CAST(`{f.name}` AS {_sql(f)}) AS `{f.name}`" for f in table.schema.fields))


def _parsed(stream: Stream, lines: Any, value_format: str, member: str | None) -> Rows:
    if value_format not in _PARSED_FILES:
        raise SourceError(f"stream {stream.name}: value_format {value_format} is not known; write 'json' or 'csv'")
    whole = Schema((*stream.schema.fields, Field("_flaw", STRING)))
    settings = "'mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_flaw'"
    kept = [] if member is None else [member]
    parsed = lines.selectExpr(f"from_{value_format}(`{RAW}`, '{_quoted(ddl(whole))}', map({settings})) AS row", *kept)
    return Rows(parsed.selectExpr("row.*", *kept), "`_flaw`", member)


def _tagged(frame: Any, tag: list[str]) -> Any:
    return frame.selectExpr("*", *tag) if tag else frame


def _place(stream: Stream) -> str | None:
    """The option that says where a stream's rows are, if sources can be read together by it."""
    wanted = "path" if stream.source in ("parquet", "orc", "json", "csv") else "subscribe"
    return wanted if wanted in stream.options and (wanted == "path" or stream.source == "kafka") else None


def _absolute(path: str) -> str:
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def _all_of(paths: Sequence[str]) -> str:
    """A pattern for several folders: what they have in common, then each one's rest.

    >>> _all_of(["/data/in/a", "/data/in/b/c"])
    '/data/in/{a,b/c}'
    """
    parts = [path.split("/") for path in paths]
    shared = 0
    while all(len(part) > shared + 1 and part[shared] == parts[0][shared] for part in parts):
        shared += 1
    rest = ",".join("/".join(part[shared:]) for part in parts)
    return f"{'/'.join(parts[0][:shared])}/{{{rest}}}"


def _below(path: str) -> str:
    """How the name of every file in a folder goes, as Spark tells it: a URI as Java writes it, which leaves letters of
    any alphabet as they are.

    >>> _below("/data/a b/ü")
    '/data/a%20b/ü/'
    """
    _, sign, rest = path.partition("://")
    text = rest if sign else path
    return "".join(c if ord(c) > 127 else quote(c, safe="/-_.!~*'():@&=+$,;") for c in text) + "/"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _sql(column: Field) -> str:
    return ddl(Schema((column,))).partition("` ")[2]

"""Sources that bring bytes or lines: how `value_format` turns them into columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.connectors.contract import SourceGroup, quoted
from headgate.connectors.spark_format import check_columns
from headgate.graph.options import OptionDeclaration, OptionProblem
from headgate.graph.queries import Stream
from headgate.graph.types import STRING, Field, Schema, sql_name
from headgate.spark.source_rows import SourceRows

RAW = "_headgate_raw"
"""The column with the raw text of a row; not null in parsed rows that are malformed."""

VALUE_FORMAT = OptionDeclaration(
    "value_format",
    "how a value becomes the declared columns: a JSON object, a CSV line, one STRING column (text), or not at all: the"
    " columns are the source's own (raw)",
    choices=("json", "csv", "text", "raw"),
    default="raw",
)


def is_raw(options: Mapping[str, str]) -> bool:
    """Whether the declared columns are the source's own."""
    return options.get(VALUE_FORMAT.name, VALUE_FORMAT.default) == "raw"


def value_problem(options: Mapping[str, str], schema: Schema) -> OptionProblem | None:
    """A value read as text fills one STRING column."""
    if options.get(VALUE_FORMAT.name) != "text" or schema.types == (STRING,):
        return None
    has = ", ".join(f"{f.name} {sql_name(f.type)}" for f in schema.fields)
    return OptionProblem(VALUE_FORMAT.name, f"value_format text fills one STRING column; declared are {has}")


def columns_of(stream: Stream, frame: Any, value: str, group: SourceGroup) -> SourceRows:
    """The declared columns from a source's DataFrame, of which `value` is Spark SQL for the text of a row."""
    from headgate.spark.types import ddl

    kept = [] if group.member is None else [group.member]
    match stream.options.get(VALUE_FORMAT.name, VALUE_FORMAT.default):
        case "raw":
            check_columns(stream, stream.source, frame, " (or add value_format 'json' to its OPTIONS)")
            return SourceRows(frame.selectExpr("*", *group.tag) if group.tag else frame, None, group.member)
        case "text":
            [column] = stream.schema.names
            return SourceRows(frame.selectExpr(f"{value} AS `{column}`", *group.tag), None, group.member)
        case parsed:
            whole = Schema((*stream.schema.fields, Field(RAW, STRING)))
            settings = f"'mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{RAW}'"
            row = f"from_{parsed}({value}, '{quoted(ddl(whole))}', map({settings})) AS row"
            rows = frame.selectExpr(row, *group.tag).selectExpr("row.*", *kept)
            return SourceRows(rows, f"`{RAW}`", group.member)
